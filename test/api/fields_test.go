package api_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A field that the API server does not know is dropped by it: what is written in full must come back in full.
// Claim: Every field of the API is kept. Broken: errorMessage gone from the schema; timeouts of the class, surgeGroup gone.
func TestFieldsAreKept(t *testing.T) {
	written := map[string]map[string]bool{}
	for name, object := range full(t) {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(content(t, store(t, object))).To(MatchJSON(content(t, object)))
		})
		if written[object.GetKind()] == nil {
			written[object.GetKind()] = map[string]bool{}
		}
		pathsOf(object.Object, "", written[object.GetKind()])
	}
	for _, kind := range kinds {
		structure := reflect.TypeOf(kind).Elem()
		t.Run("every field of "+structure.Name(), func(t *testing.T) {
			g := NewWithT(t)
			fields := map[string]bool{}
			structureOf(structure, "", fields)
			g.Expect(len(fields)).To(BeNumerically(">", 5))
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				if isRefused(structure.Name(), field) {
					continue
				}
				g.Expect(written[structure.Name()]).To(HaveKey(field), "no object in testdata has it")
			}
		})
	}
}

// isRefused reports whether a rule of a kind refuses a field that others with the same type may have.
func isRefused(kind, field string) bool {
	return slices.Contains([]string{"MachineDeployment", "MachineFleet"}, kind) && strings.Contains(field, ".configSource.resolved")
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// fieldsOf notes the path of every field of an API type. What writes itself, such as a time, has no fields.
func fieldsOf(t reflect.Type, path string, into map[string]bool) {
	switch {
	case t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler):
	case t.Kind() == reflect.Pointer:
		fieldsOf(t.Elem(), path, into)
	case t.Kind() == reflect.Slice:
		fieldsOf(t.Elem(), path+"[]", into)
	case t.Kind() == reflect.Struct:
		structureOf(t, path, into)
	}
}

// structureOf is fieldsOf for a struct, also for a kind, which writes itself.
func structureOf(t reflect.Type, path string, into map[string]bool) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || field.Type == reflect.TypeFor[metav1.ObjectMeta]() || field.Type == reflect.TypeFor[metav1.TypeMeta]():
		case name == "":
			fieldsOf(field.Type, path, into)
		default:
			into[path+"."+name] = true
			fieldsOf(field.Type, path+"."+name, into)
		}
	}
}
