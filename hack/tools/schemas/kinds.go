package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// fleetSchema is one schema for all kinds: which of its definitions holds for a document, its kind says. Documents of other groups are left
// alone, so that a file may have them too.
func fleetSchema(crds string) (schema, error) {
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no *.yaml in %s", crds)
	}
	definitions, kinds, choices := schema{"providerConfig": providerConfig()}, []any{}, []any{}
	for _, file := range files {
		kind, made, err := kindSchema(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		definitions[kind] = made
		kinds = append(kinds, kind)
		choices = append(choices, choice(kind, "#/definitions/"+kind))
	}
	for _, kind := range providerKinds {
		kinds = append(kinds, kind)
		choices = append(choices, choice(kind, fileName(kind)))
	}
	return schema{
		"$schema": draft, "title": "Hollowfleet", "description": "All kinds of " + apiVersion + ".", "type": "object",
		"definitions": definitions,
		"if":          schema{"properties": schema{"apiVersion": schema{"const": apiVersion}}, "required": []any{"apiVersion"}},
		"then": schema{
			"properties": schema{"kind": schema{"enum": kinds}}, "required": []any{"kind"},
			"allOf": choices,
		},
	}, nil
}

// choice has a schema hold for documents of a kind.
func choice(kind, reference string) schema {
	return schema{
		"if":   schema{"properties": schema{"kind": schema{"const": kind}}, "required": []any{"kind"}},
		"then": schema{"$ref": reference},
	}
}

// providerConfig is the schema of a provider's configuration. Those of other API groups are their driver's.
func providerConfig() schema {
	var choices, kinds []any
	for _, kind := range providerKinds {
		kinds = append(kinds, kind)
		choices = append(choices, choice(kind, fileName(kind)))
	}
	return schema{
		"type": "object",
		"if":   schema{"properties": schema{"apiVersion": schema{"const": apiVersion}}, "required": []any{"apiVersion"}},
		"then": schema{"properties": schema{"kind": schema{"enum": kinds}}, "required": []any{"kind"}, "allOf": choices},
	}
}

// kindSchema reads the kind that a CRD defines. A status is written by programs: no editor has to know its fields.
func kindSchema(file string) (string, schema, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	var definition struct {
		Spec struct {
			Names    struct{ Kind string }
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return "", nil, err
	}
	if len(definition.Spec.Versions) != 1 {
		return "", nil, fmt.Errorf("has %d versions, want one", len(definition.Spec.Versions))
	}
	made := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	properties := made["properties"].(schema)
	if _, has := properties["status"]; has {
		properties["status"] = schema{"type": "object", preserves: true}
	}
	referProviders(made)
	convert(made)
	nameKind(made, definition.Spec.Names.Kind)
	return definition.Spec.Names.Kind, made, nil
}

// referProviders replaces each configuration of a provider, which a CRD takes as it is: that of a class, and the value of others.
func referProviders(s schema) {
	properties, _ := s["properties"].(schema)
	for name, each := range properties {
		below := each.(schema)
		if name == "providerConfig" {
			fields, _ := below["properties"].(schema)
			if _, inPlace := fields["value"]; inPlace {
				fields["value"] = schema{"$ref": "#/definitions/providerConfig"}
			} else {
				properties[name] = schema{"$ref": "#/definitions/providerConfig"}
			}
			continue
		}
		referProviders(below)
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if below, is := s[name].(schema); is {
			referProviders(below)
		}
	}
}
