package main

import "strings"

const (
	preserves   = "x-kubernetes-preserve-unknown-fields"
	intOrString = "x-kubernetes-int-or-string"
)

// convert makes a JSON schema of a structural OpenAPI schema, in place. An object has no other properties than its schema names.
func convert(s schema) {
	properties, isObject := s["properties"].(schema)
	if _, isMap := s["additionalProperties"]; isObject && !isMap && !isTrue(s[preserves]) {
		s["additionalProperties"] = false
	}
	if isTrue(s[intOrString]) {
		delete(s, "type")
	}
	for name := range s {
		if strings.HasPrefix(name, "x-kubernetes-") || name == "nullable" {
			delete(s, name)
		}
	}
	if text, is := s["description"].(string); is {
		s["description"] = strings.Join(strings.Fields(text), " ")
	}
	for _, each := range properties {
		convert(each.(schema))
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if below, is := s[name].(schema); is {
			convert(below)
		}
	}
}

func isTrue(value any) bool {
	is, _ := value.(bool)
	return is
}
