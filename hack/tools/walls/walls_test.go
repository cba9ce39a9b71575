package main

import (
	"slices"
	"strings"
	"testing"
)

func TestLawfulTreeHasNoBreach(t *testing.T) {
	breaches, packages, err := checkRepository(t.Context(), writeTree(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(breaches) > 0 {
		t.Errorf("breaches in a tree that keeps every wall: %v", breaches)
	}
	if want := len(lawful) + 2; packages != want {
		t.Errorf("%d packages checked, want %d", packages, want)
	}
}

// TestPlantedBreachIsFound plants each breach alone, so that none can hide behind another.
func TestPlantedBreachIsFound(t *testing.T) {
	t.Parallel()
	for _, p := range plants {
		if p.rule == "" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			dir := writeTree(t)
			writePackage(t, dir, p.dir, "planted.go", p.imports, p.body)
			breaches, _, err := checkRepository(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(breaches, func(b breach) bool {
				return strings.Contains(b.rule, p.rule) && b.chain[0] == root+"/"+p.dir
			}) {
				t.Errorf("the breach of %q was not found; found: %v", p.rule, breaches)
			}
		})
	}
}

func TestTestsAreHeldToTheWalls(t *testing.T) {
	g := graph{
		own: []string{root + "/hub"},
		nodes: map[string]node{
			root + "/hub": {ImportPath: root + "/hub", Imports: []string{"time"}, XTestImports: []string{root + "/agent/driver"}},
			"time":        {ImportPath: "time", Standard: true},
		},
	}
	breaches := check(g, rules)
	if len(breaches) != 1 || breaches[0].rule != "hub never imports agent" {
		t.Errorf("breaches %v, want that of the test file", breaches)
	}
}

func TestPlannerTestsMayImportMore(t *testing.T) {
	pkg := root + "/hub/internal/machineset/plan"
	g := graph{own: []string{pkg}, nodes: map[string]node{pkg: {ImportPath: pkg, TestImports: []string{"pgregory.net/rapid"}}}}
	if breaches := check(g, rules); len(breaches) > 0 {
		t.Errorf("a test library was refused in a planner's test: %v", breaches)
	}
}

func TestShortestChainIsShown(t *testing.T) {
	g := graph{nodes: map[string]node{
		"a": {Imports: []string{"b", "c"}},
		"b": {Imports: []string{"d"}},
		"c": {Imports: []string{"bad"}},
		"d": {Imports: []string{"bad"}},
	}}
	chains := g.reach("a", false, func(p string) bool { return p == "bad" })
	if len(chains) != 1 || !slices.Equal(chains[0], []string{"a", "c", "bad"}) {
		t.Errorf("chains %v, want a, c, bad", chains)
	}
}

func TestBrokenPackageIsAnError(t *testing.T) {
	dir := writeTree(t)
	writePackage(t, dir, "hub/internal/lost", "lost.go", []string{root + "/no/such/package"}, "")
	if _, _, err := checkRepository(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "no/such/package") {
		t.Errorf("error %v, want one that names the missing package", err)
	}
}
