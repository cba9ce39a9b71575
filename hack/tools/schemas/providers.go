package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// providerSchemas makes the schema of each configuration of a provider from its Go type.
func providerSchemas(apis string) (map[string]schema, error) {
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Dir: apis}, "./v1alpha1")
	if err != nil {
		return nil, err
	}
	if len(roots) != 1 {
		return nil, fmt.Errorf("%d packages are ./v1alpha1, want one", len(roots))
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return nil, err
	}
	parser := &crd.Parser{Collector: &markers.Collector{Registry: registry}, Checker: &loader.TypeChecker{}}
	crd.AddKnownTypes(parser)
	parser.NeedPackage(roots[0])
	all := map[string]schema{}
	for _, kind := range providerKinds {
		ident := crd.TypeIdent{Package: roots[0], Name: kind}
		if parser.Types[ident] == nil {
			return nil, fmt.Errorf("there is no type %s", kind)
		}
		parser.NeedFlattenedSchemaFor(ident)
		if loader.PrintErrors(roots, packages.TypeError) { // Types of imports are not loaded in full.
			return nil, fmt.Errorf("type %s has no schema", kind)
		}
		made, err := toMap(parser.FlattenedSchemata[ident])
		if err != nil {
			return nil, err
		}
		all[kind] = completeProvider(kind, made)
	}
	return all, nil
}

func toMap(from any) (schema, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	made := schema{}
	return made, json.Unmarshal(text, &made)
}

// completeProvider adds what a driver asks for beyond the fields of the type.
func completeProvider(kind string, s schema) schema {
	convert(s)
	s["$schema"], s["title"] = draft, kind
	nameKind(s, kind)
	return s
}

// nameKind makes apiVersion and kind those of a kind, and required.
func nameKind(s schema, kind string) {
	properties := s["properties"].(schema)
	properties["apiVersion"] = schema{"const": apiVersion, "description": "Always " + apiVersion + "."}
	properties["kind"] = schema{"const": kind, "description": "Always " + kind + "."}
	required, _ := s["required"].([]any)
	for _, name := range []any{"apiVersion", "kind"} {
		if !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	s["required"] = required
}
