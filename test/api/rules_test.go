package api_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/config"
)

// schemaRule is one thing that the schema of a kind demands of a field.
type schemaRule struct {
	// owner is the Go field, such as Disruption.faults, with [] for the elements of a list and {} for the values of a map.
	owner string
	// name is the schema's word for it, such as maxLength, and value what it is set to. That of a CEL rule is its message.
	name, value string
	// onUpdate marks a rule that compares the new value with the old one.
	onUpdate bool
}

func (r schemaRule) String() string { return strings.TrimSpace(r.owner + " " + r.name + " " + r.value) }

// rulePlace is where a rule stands: the resource and the path in its objects.
type rulePlace struct {
	resource string
	path     []string
}

func (p rulePlace) field(name string) rulePlace {
	return rulePlace{p.resource, append(slices.Clone(p.path), name)}
}

// schemaRules are the rules of all kinds, each with its places.
type schemaRules map[schemaRule][]rulePlace

// readRules walks the schemas that are installed.
func readRules(t *testing.T) schemaRules {
	t.Helper()
	rules := schemaRules{}
	for resource, kind := range kinds {
		text, err := config.CRDs.ReadFile("crd/hollowfleet.io_" + resource + ".yaml")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		definition := &apiextensionsv1.CustomResourceDefinition{}
		NewWithT(t).Expect(yaml.Unmarshal(text, definition)).To(Succeed())
		structure := reflect.TypeOf(kind).Elem()
		rules.walk(structure, *definition.Spec.Versions[0].Schema.OpenAPIV3Schema, structure.Name(), rulePlace{resource: resource})
	}
	return rules
}

func (r schemaRules) walk(of reflect.Type, schema apiextensionsv1.JSONSchemaProps, owner string, at rulePlace) {
	for _, rule := range rulesOfField(schema) {
		rule.owner = owner
		r[rule] = append(r[rule], at)
	}
	of = pointed(of)
	switch {
	case schema.Items != nil && of.Kind() == reflect.Slice:
		r.walk(of.Elem(), *schema.Items.Schema, owner+"[]", at.field("[]"))
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil && of.Kind() == reflect.Map:
		r.walk(of.Elem(), *schema.AdditionalProperties.Schema, owner+"{}", at.field("{}"))
	case len(schema.Properties) > 0 && of.Kind() == reflect.Struct:
		r.walkFields(of, schema, at)
	}
}

func pointed(of reflect.Type) reflect.Type {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of
}

func (r schemaRules) walkFields(of reflect.Type, schema apiextensionsv1.JSONSchemaProps, at rulePlace) {
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			r.walkFields(pointed(field.Type), schema, at)
			continue
		}
		property, has := schema.Properties[name]
		if !has {
			continue
		}
		owner := of.Name() + "." + name
		if slices.Contains(schema.Required, name) {
			rule := schemaRule{owner: owner, name: "required"}
			r[rule] = append(r[rule], at.field(name))
		}
		r.walk(field.Type, property, owner, at.field(name))
	}
}

// rulesOfField are those of one field, without what they say of its type.
func rulesOfField(schema apiextensionsv1.JSONSchemaProps) (rules []schemaRule) {
	add := func(name string, value any) { rules = append(rules, schemaRule{name: name, value: fmt.Sprint(value)}) }
	for name, bound := range map[string]*int64{
		"minLength": schema.MinLength, "maxLength": schema.MaxLength, "minItems": schema.MinItems, "maxItems": schema.MaxItems,
		"minProperties": schema.MinProperties, "maxProperties": schema.MaxProperties,
	} {
		if bound != nil {
			add(name, *bound)
		}
	}
	for name, bound := range map[string]*float64{"minimum": schema.Minimum, "maximum": schema.Maximum} {
		if bound != nil {
			add(name, int64(*bound))
		}
	}
	if schema.Pattern != "" {
		add("pattern", schema.Pattern)
	}
	if schema.Format != "" && schema.Type == "string" {
		add("format", schema.Format)
	}
	if len(schema.Enum) > 0 {
		var words []string
		for _, word := range schema.Enum {
			words = append(words, string(word.Raw))
		}
		add("enum", strings.Join(words, " "))
	}
	switch ptr.Deref(schema.XListType, "") {
	case "set":
		add("unique", "")
	case "map":
		add("unique", strings.Join(schema.XListMapKeys, " "))
	}
	for _, rule := range schema.XValidations {
		onUpdate := strings.Contains(rule.Rule, "oldSelf") && !ptr.Deref(rule.OptionalOldSelf, false)
		rules = append(rules, schemaRule{name: "rule", value: rule.Message, onUpdate: onUpdate})
	}
	return rules
}

const inventory = "testdata/rules/inventory.txt"

var update = flag.Bool("update", false, "rewrite "+inventory)

// Whoever changes a schema sees in the inventory which rules come and go.
// Claim: Every rule of every kind's schema refuses a bad object, with its message at its field. Broken: all 95 CEL rules always true. Also: TestEveryRuleRefusesABadObject.
func TestEveryRuleIsInTheInventory(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	for rule, places := range readRules(t) {
		lines = append(lines, fmt.Sprintf("%s ×%d", rule, len(places)))
	}
	slices.Sort(lines)
	if *update {
		g.Expect(os.WriteFile(inventory, []byte(strings.Join(lines, "\n")+"\n"), 0o600)).To(Succeed())
	}
	text, err := os.ReadFile(inventory)
	g.Expect(err).NotTo(HaveOccurred())
	known := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		g.Expect(known).To(ContainElement(line), "a new rule: give it a bad value in testdata/rules/bad.yaml, then go test ./test/api -run Inventory -update")
	}
	for _, line := range known {
		g.Expect(lines).To(ContainElement(line), "no schema has this rule any more: if that is wanted, go test ./test/api -run Inventory -update")
	}
}
