package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// The API server says of each rule's bad object what that rule says, and at that field.
func TestEveryRuleRefusesABadObject(t *testing.T) {
	g := NewWithT(t)
	objects, stored := full(t), map[string]*unstructured.Unstructured{}
	for name, object := range objects {
		stored[name] = store(t, object)
	}
	text, err := os.ReadFile("testdata/rules/bad.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	bad := map[string][]any{}
	g.Expect(yaml.Unmarshal(text, &bad)).To(Succeed())
	used := map[string]bool{}
	for rule, places := range readRules(t) {
		used[rule.value] = true
		t.Run(strings.ReplaceAll(rule.String(), "/", "_"), func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(objects)) {
				for _, place := range places {
					if kindOf(place.resource) != objects[name].GetKind() {
						continue
					}
					if at := concretePath(objects[name].Object, place.path); at != nil {
						refuse(t, rule, place, at, objects[name], stored[name], bad)
						return
					}
				}
			}
			t.Error("no object of testdata has this field")
		})
	}
	for name := range bad {
		if !used[name] {
			t.Errorf("no schema has this pattern or rule: %s", name)
		}
	}
}

func kindOf(resource string) string { return reflect.TypeOf(kinds[resource]).Elem().Name() }

// refuse has the API server refuse each bad value of a rule.
func refuse(t *testing.T, rule schemaRule, place rulePlace, at []any, good, stored *unstructured.Unstructured, bad map[string][]any) {
	t.Helper()
	onStored := rule.onUpdate || place.path != nil && place.path[0] == "status"
	base := good
	if onStored {
		base = stored
	}
	values, want := badValues(t, rule, valueAt(base.Object, at), bad)
	for _, value := range values {
		object := base.DeepCopy()
		object.Object = replaceAt(object.Object, at, value).(map[string]any)
		var err error
		switch {
		case !onStored:
			err = testenv.Server().Client.Create(t.Context(), object, client.DryRunAll)
		case len(place.path) > 0 && place.path[0] == "status":
			err = testenv.Server().Client.Status().Update(t.Context(), object, client.DryRunAll)
		default:
			err = testenv.Server().Client.Update(t.Context(), object, client.DryRunAll)
		}
		expectCause(t, err, place.path, want, value)
	}
}

// expectCause fails the test unless the API server gives a cause of that text at that field.
func expectCause(t *testing.T, err error, path []string, want string, value any) {
	t.Helper()
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
		t.Errorf("%.200s: want it refused, because %q; got %v", fmt.Sprint(value), want, err)
		return
	}
	for _, cause := range status.Status().Details.Causes {
		if strings.Contains(cause.Message, want) && isField(cause.Field, path) {
			return
		}
	}
	t.Errorf("%.200s: want a cause %q at %s; got %v", fmt.Sprint(value), want, strings.Join(path, "."), status.Status().Details.Causes)
}

var index = regexp.MustCompile(`\[[^]]*\]`)

// isField says whether a cause's field is that of a path, or inside it, where the fields of a rule may be.
func isField(field string, path []string) bool {
	of := func(text string) string {
		return strings.Trim(strings.ReplaceAll(index.ReplaceAllString(text, ""), "..", "."), ".")
	}
	wanted := of(strings.ReplaceAll(strings.ReplaceAll(strings.Join(path, "."), "{}", ""), "[]", ""))
	return field == "<nil>" && wanted == "" || strings.HasPrefix(of(field), wanted)
}

type removed struct{}

// said is what the API server says of a value that breaks a rule of the schema, by the rule's name; VALUE is what the rule is set to.
var said = map[string]string{
	"required": "Required value", "minimum": "should be greater than or equal to VALUE", "maximum": "should be less than or equal to VALUE",
	"minLength": "should be at least VALUE chars long", "maxLength": "may not be more than VALUE bytes", "minItems": "should have at least VALUE items",
	"maxItems": "must have at most VALUE items", "minProperties": "should have at least VALUE properties", "maxProperties": "must have at most VALUE items",
	"unique": "Duplicate value", "enum": "Unsupported value", "format": "must be of type VALUE", "pattern": "should match 'VALUE'", "rule": "VALUE",
}

// badValues returns values that break a rule, made from the good one or by hand, and what the API server says of them.
func badValues(t *testing.T, rule schemaRule, good any, bad map[string][]any) (values []any, message string) {
	t.Helper()
	message = strings.ReplaceAll(said[rule.name], "VALUE", rule.value)
	if made := breakBound(rule, good); made != nil {
		return []any{made}, message
	}
	if len(bad[rule.value]) == 0 {
		t.Error("no bad value for it in testdata/rules/bad.yaml")
	}
	for _, value := range bad[rule.value] {
		values = append(values, merge(good, value))
	}
	return values, message
}

// breakBound is the nearest value that a rule refuses; nil for a pattern or a CEL rule.
func breakBound(rule schemaRule, good any) any {
	bound, _ := strconv.ParseInt(rule.value, 10, 64) // 0 if it is not a number.
	switch rule.name {
	case "required":
		return removed{}
	case "minimum":
		return bound - 1
	case "maximum":
		return bound + 1
	case "minLength":
		return strings.Repeat("x", int(bound-1))
	case "maxLength":
		return strings.Repeat("x", int(bound+1))
	case "minItems":
		return items(good, int(bound-1))
	case "maxItems":
		return items(good, int(bound+1))
	case "minProperties":
		return properties(good, int(bound-1))
	case "maxProperties":
		return properties(good, int(bound+1))
	case "unique":
		return items(good, 2)
	case "enum":
		return "Other"
	case "format":
		return "%"
	}
	return nil
}

func items(good any, count int) []any {
	list, _ := good.([]any)
	if count == 0 || len(list) == 0 {
		return []any{}
	}
	return slices.Repeat(list[:1], count)
}

func properties(good any, count int) map[string]any {
	made := map[string]any{}
	for _, value := range good.(map[string]any) {
		for i := range count {
			made[fmt.Sprint("key-", i)] = value
		}
	}
	return made
}

// merge is a JSON merge patch, in which many labels, many elements and long texts can be written in short.
func merge(good, patch any) any {
	changes, isMap := patch.(map[string]any)
	if !isMap {
		return patch
	}
	if count, has := changes["$labels"]; has {
		return properties(map[string]any{"a": "b"}, int(count.(float64)))
	}
	if count, has := changes["$items"]; has {
		return items([]any{merge(nil, changes["of"])}, int(count.(float64)))
	}
	if count, has := changes["$text"]; has {
		return strings.Repeat("x", int(count.(float64)))
	}
	made := map[string]any{}
	if fields, is := good.(map[string]any); is {
		maps.Copy(made, fields)
	}
	for name, change := range changes {
		if delete(made, name); change != nil {
			made[name] = merge(valueAt(good, []any{name}), change)
		}
	}
	return made
}

// concretePath is the first place in value that a path means; nil if there is none.
func concretePath(value any, path []string) []any {
	if len(path) == 0 {
		return []any{}
	}
	switch typed := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(typed)) {
			if path[0] != name && path[0] != "{}" {
				continue
			}
			if rest := concretePath(typed[name], path[1:]); rest != nil {
				return append([]any{name}, rest...)
			}
		}
	case []any:
		for i, element := range typed {
			if path[0] != "[]" {
				continue
			}
			if rest := concretePath(element, path[1:]); rest != nil {
				return append([]any{i}, rest...)
			}
		}
	}
	return nil
}

func valueAt(value any, path []any) any {
	for _, step := range path {
		switch typed := value.(type) {
		case map[string]any:
			value = typed[step.(string)]
		case []any:
			value = typed[step.(int)]
		}
	}
	return value
}

// replaceAt changes value in place, unless it is replaced as a whole.
func replaceAt(value any, path []any, with any) any {
	if len(path) == 0 {
		return jsonOf(with)
	}
	switch typed := value.(type) {
	case map[string]any:
		name := path[0].(string)
		if _, remove := with.(removed); remove && len(path) == 1 {
			delete(typed, name)
		} else {
			typed[name] = replaceAt(typed[name], path[1:], with)
		}
	case []any:
		typed[path[0].(int)] = replaceAt(typed[path[0].(int)], path[1:], with)
	}
	return value
}

// jsonOf is value with the types that an object as JSON has.
func jsonOf(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"x","value":` + string(text) + `}`)); err != nil {
		panic(err)
	}
	return object.Object["value"]
}
