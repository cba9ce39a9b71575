package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

// statement is an in-toto statement, https://in-toto.io/Statement/v1, with SLSA provenance, https://slsa.dev/spec/v1.1/provenance. It is not
// signed, and has no time: the same source gives the same statement.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

// resource is a file, a commit or a module.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string         `json:"buildType"`
	ExternalParameters   map[string]any `json:"externalParameters"`
	InternalParameters   map[string]any `json:"internalParameters"`
	ResolvedDependencies []resource     `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// writeProvenance says what files were made of: the commit, and the modules that Go has noted in the programs, with their checksums of go.sum.
func (o options) writeProvenance(files []summed, programs []string, to string) error {
	made := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: predicate{RunDetails: runDetails{builder{ID: repository + "/blob/main/Makefile#release"}}},
	}
	for _, each := range files {
		made.Subject = append(made.Subject, resource{Name: each.name, Digest: map[string]string{"sha256": each.sum}})
	}
	materials, compilers, err := readMaterials(programs)
	if err != nil {
		return err
	}
	made.Predicate.BuildDefinition = buildDefinition{
		BuildType: repository + "/blob/main/docs/contributing/releases.md",
		ExternalParameters: map[string]any{
			"version": o.version, "snapshot": o.snapshot, "parts": o.parts, "arches": o.arches, "uncommittedFiles": len(o.source.changed),
		},
		InternalParameters: map[string]any{"go": compilers, "sourceDateEpoch": o.source.time.Unix()},
		ResolvedDependencies: append([]resource{{
			URI: "git+" + repository, Digest: map[string]string{"gitCommit": o.source.commit},
		}}, materials...),
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(text, '\n'), 0o644)
}

// readMaterials are the modules of programs, each once, and the versions of Go.
func readMaterials(programs []string) (materials []resource, compilers []string, err error) {
	seen := map[string]bool{}
	for _, path := range programs {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading what %s was built of: %w", path, err)
		}
		compilers = append(compilers, info.GoVersion)
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			uri := "pkg:golang/" + module.Path + "@" + module.Version
			if module.Sum == "" || seen[uri] {
				continue // A module of this repository has no checksum: it is in the commit.
			}
			seen[uri] = true
			material, err := materialOf(module, uri)
			if err != nil {
				return nil, nil, err
			}
			materials = append(materials, material)
		}
	}
	slices.SortFunc(materials, func(a, b resource) int { return cmp.Compare(a.URI, b.URI) })
	slices.Sort(compilers)
	return materials, slices.Compact(compilers), nil
}

// materialOf writes a checksum as in-toto's DigestSet does: dirHash is Go's h1, in hexadecimal.
func materialOf(module *debug.Module, uri string) (resource, error) {
	encoded, isH1 := strings.CutPrefix(module.Sum, "h1:")
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !isH1 {
		return resource{}, fmt.Errorf("checksum %q of module %s: want one of kind h1", module.Sum, module.Path)
	}
	return resource{URI: uri, Digest: map[string]string{"dirHash": hex.EncodeToString(sum)}}, nil
}
