package hollowpod

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// toldBytes bounds what is told of a value that is refused.
const toldBytes = 120

// compare returns the fields that are not as they should be.
func compare(want, got corev1.PodSpec) Refusals {
	c := &comparison{}
	c.compareValues("spec", reflect.ValueOf(want), reflect.ValueOf(got))
	return c.refusals
}

type comparison struct{ refusals Refusals }

// compareValues descends as far as a difference can be told by a field of the API.
func (c *comparison) compareValues(path string, want, got reflect.Value) {
	switch {
	case isUnset(want) && asksForNothing(got) || equality.Semantic.DeepEqual(want.Interface(), got.Interface()):
	case want.Kind() == reflect.Pointer && !want.IsNil() && !got.IsNil():
		c.compareValues(path, want.Elem(), got.Elem())
	case want.Kind() == reflect.Struct:
		for i := range want.NumField() {
			c.compareValues(join(path, want.Type().Field(i)), want.Field(i), got.Field(i))
		}
	case want.Kind() == reflect.Slice && want.Type().Elem().Kind() == reflect.Struct:
		c.compareLists(path, want, got)
	default:
		c.refuse(path, want, got)
	}
}

func (c *comparison) compareLists(path string, want, got reflect.Value) {
	for i := range max(want.Len(), got.Len()) {
		field := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= want.Len():
			c.refuse(field, reflect.Value{}, got.Index(i))
		case i >= got.Len():
			c.refuse(field, want.Index(i), reflect.Value{})
		default:
			c.compareValues(field, want.Index(i), got.Index(i))
		}
	}
}

func (c *comparison) refuse(field string, want, got reflect.Value) {
	c.refusals = append(c.refusals, Refusal{Field: field, Reason: fmt.Sprintf("want %s, got %s", tell(want), tell(got))})
}

// isUnset reports whether a field has no value, or an empty one.
func isUnset(value reflect.Value) bool {
	if kind := value.Kind(); kind == reflect.Slice || kind == reflect.Map {
		return value.Len() == 0
	}
	return value.IsZero()
}

// asksForNothing reports whether a field is unset or says that it is.
func asksForNothing(value reflect.Value) bool {
	return isUnset(value) || value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Bool && !value.Elem().Bool()
}

func tell(value reflect.Value) string {
	if !value.IsValid() || isUnset(value) && value.Kind() != reflect.Bool {
		return "nothing"
	}
	text, err := json.Marshal(value.Interface())
	if err != nil {
		return "something else"
	}
	if len(text) > toldBytes {
		return strings.ToValidUTF8(string(text[:toldBytes]), "") + "…"
	}
	return string(text)
}

// join appends a field's name in the API to a path. Embedded structs have none.
func join(path string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return path
	}
	return path + "." + name
}
