// Package support knows which fields of a pod's spec the podhost can honour.
//
// Every field of the API is listed in a table with what happens to it. A field
// that is missing there, because the API grew, counts as one that cannot be
// honoured. Nothing is ignored in silence: what is accepted without effect is
// listed with the reason why that is right.
package support

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Refusal names a field that the podhost cannot honour.
type Refusal struct {
	// Field is the path of the field, such as spec.containers[0].lifecycle.
	Field string
	// Reason says why, and what to do instead if there is something.
	Reason string
}

func (r Refusal) String() string { return r.Field + ": " + r.Reason }

// Refusals is the result of Check.
type Refusals []Refusal

func (r Refusals) String() string {
	texts := make([]string, 0, len(r))
	for _, refusal := range r {
		texts = append(texts, refusal.String())
	}
	return strings.Join(texts, "; ")
}

// Check returns everything in the pod's spec that cannot be honoured by a
// podhost that runs as the given user.
func Check(pod *corev1.Pod, host HostUser) Refusals {
	c := &checker{pod: pod, host: host}
	c.visit("spec", reflect.ValueOf(&pod.Spec).Elem())
	c.checkContainers("spec.initContainers", pod.Spec.InitContainers)
	c.checkContainers("spec.containers", pod.Spec.Containers)
	return c.refusals
}

type checker struct {
	pod      *corev1.Pod
	host     HostUser
	refusals Refusals
}

// rule decides about one field. The value is never unset.
type rule func(c *checker, field string, value reflect.Value)

func (c *checker) refuse(field, reason string, args ...any) {
	c.refusals = append(c.refusals, Refusal{Field: field, Reason: fmt.Sprintf(reason, args...)})
}

// visit applies the rules to a struct, a pointer to one or a slice of them.
func (c *checker) visit(path string, value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		c.visit(path, value.Elem())
	case reflect.Slice:
		for i := range value.Len() {
			c.visit(fmt.Sprintf("%s[%d]", path, i), value.Index(i))
		}
	case reflect.Struct:
		rules := tables[value.Type()]
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if unset(value.Field(i)) {
				continue
			}
			apply, known := rules[field.Name]
			if !known {
				apply = refused("this field is unknown to the podhost")
			}
			apply(c, join(path, field), value.Field(i))
		}
	}
}

// unset reports whether a field has no value, or one that means the same.
func unset(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Pointer:
		return value.IsNil()
	case reflect.Slice, reflect.Map:
		return value.Len() == 0
	}
	return value.IsZero()
}

// join appends a field's name in the API to a path. Embedded structs have none.
func join(path string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return path
	}
	return path + "." + name
}

// accepted is the rule for fields that are honoured.
func accepted(*checker, string, reflect.Value) {}

// without is the rule for fields that need no action. The reason is for the reader.
func without(string) rule { return accepted }

// inside is the rule for structs with a table of their own.
func inside(c *checker, field string, value reflect.Value) { c.visit(field, value) }

// refused is the rule for fields that cannot be honoured.
func refused(reason string) rule {
	return func(c *checker, field string, value reflect.Value) {
		if value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Bool && !value.Elem().Bool() {
			return // an explicit "false" asks for nothing
		}
		c.refuse(field, "%s", reason)
	}
}

// only is the rule for fields of which some values can be honoured.
func only(reason string, allowed ...any) rule {
	return func(c *checker, field string, value reflect.Value) {
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		for _, candidate := range allowed {
			if reflect.ValueOf(candidate).Equal(value) {
				return
			}
		}
		c.refuse(field, "%v %s", value.Interface(), reason)
	}
}
