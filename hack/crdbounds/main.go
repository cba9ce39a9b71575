// Crdbounds gives CRDs the bounds that the types of other packages lack: markers reach only our own types, and the Go code
// that reads a quantity or a time of another length fails, or takes long. A rule that finds nothing is an error: the
// schema that it was written for has changed. It also joins the lines of descriptions, which "kubectl explain" breaks itself.
//
//	crdbounds config/crd/*.yaml
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"

	"sigs.k8s.io/yaml"
)

// schema is a schema of OpenAPI, or another object in a CRD.
type schema = map[string]any

// duration is a Go duration of whole numbers, without its anchors.
const duration = `([0-9]{1,5}h|[0-9]{1,7}m|[0-9]{1,9}s)+`

// rule changes the schemas for which applies returns true. name is that of the property.
type rule struct {
	about   string
	applies func(name string, s schema) bool
	bounds  schema
}

func listRules() []rule {
	named := func(name, kind string) func(string, schema) bool {
		return func(property string, s schema) bool { return property == name && s["type"] == kind }
	}
	with := func(field string, value any) func(string, schema) bool {
		return func(_ string, s schema) bool { return s[field] == value }
	}
	return []rule{
		// The exponent is the number of digits that Go computes, so it has two digits at most.
		{"quantities", with("pattern", `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`), schema{
			"maxLength": 48,
			"pattern":   `^[-+]?([0-9]{1,20}(\.[0-9]{0,18})?|\.[0-9]{1,18})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$`,
		}},
		// RFC 3339. With the format date-time the API server accepts more, also an empty list.
		{"times", with("format", "date-time"), schema{
			"format":    nil,
			"maxLength": 35,
			"pattern": `^([12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|` +
				`([12][0-9](0[48]|[2468][048]|[13579][26])|2000)-02-29)T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$`,
		}},
		// The code that writes a condition cuts its message.
		{"messages of conditions", with("maxLength", json.Number("32768")), schema{"maxLength": 4096}},
		// The values of a label selector's expression, which is asked for every Cluster or Machine.
		{"values of selectors", named("values", "array"), schema{"maxItems": 256}},
		// The others are for a RolloutStrategy of Open Cluster Management.
		{"minSuccessTime", named("minSuccessTime", "string"), schema{"maxLength": 32, "pattern": `^(0|` + duration + `)$`}},
		{"progressDeadline", named("progressDeadline", "string"), schema{"maxLength": 32, "pattern": `^(None|` + duration + `)$`}},
		{"numbers or percentages of clusters", with("pattern", `^((100|[0-9]{1,2})%|[0-9]+)$`), schema{"maxLength": 16, "maximum": 1000000, "minimum": 0}},
		{"mandatoryDecisionGroups", named("mandatoryDecisionGroups", "array"), schema{"maxItems": 64}},
		{"groupName", named("groupName", "string"), schema{"maxLength": 63}},
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crdbounds:", err)
		os.Exit(1)
	}
}

// run changes files, none of them if a rule finds nothing in any.
func run(files []string) error {
	changed, found, rules := map[string][]byte{}, map[string]bool{}, listRules()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if changed[file], err = boundSchemas(content, rules, found); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, r := range rules {
		if !found[r.about] {
			return fmt.Errorf("no schema of %s is left to be bounded: its type has changed, so change the rule in hack/crdbounds too", r.about)
		}
	}
	for file, content := range changed {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// boundSchemas returns a CRD in which all schemas have the bounds of the rules, and adds to found what it found.
func boundSchemas(crd []byte, rules []rule, found map[string]bool) ([]byte, error) {
	object := schema{}
	keepNumbers := func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }
	if err := yaml.Unmarshal(crd, &object, keepNumbers); err != nil {
		return nil, err
	}
	applyRules("", object, rules, found)
	content, err := yaml.Marshal(object)
	return append([]byte("---\n"), content...), err
}

// applyRules applies the rules to value, which is the property of that name, and to all below it.
func applyRules(name string, value any, rules []rule, found map[string]bool) {
	switch value := value.(type) {
	case schema:
		for _, r := range rules {
			if r.applies(name, value) {
				found[r.about] = true
				maps.Copy(value, r.bounds)
				maps.DeleteFunc(value, func(_ string, field any) bool { return field == nil })
			}
		}
		if text, isText := value["description"].(string); isText {
			value["description"] = joinLines(text)
		}
		for name, field := range value {
			applyRules(name, field, rules, found)
		}
	case []any:
		for _, item := range value {
			applyRules("", item, rules, found)
		}
	}
}

// lineEnd is one within a paragraph: the next line is neither empty, nor an item, nor indented.
var lineEnd = regexp.MustCompile(`([^\n])\n([^\n\t -])`)

// joinLines writes each paragraph of a Go comment in one line.
func joinLines(text string) string { return lineEnd.ReplaceAllString(text, "$1 $2") }
