package plan

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// machine makes an owned, matching, ready Machine, created age after start; the flags change that.
func machine(name string, age time.Duration, flags ...string) Machine {
	m := Machine{Name: name, UID: types.UID(name), Created: start.Add(age), Owned: true, Matches: true, Ready: true}
	for _, flag := range flags {
		switch flag {
		case "orphan":
			m.Owned, m.Orphan = false, true
		case "foreign":
			m.Owned = false
		case "mismatch":
			m.Matches = false
		case "deleting":
			m.Deleting = true
		case "marked":
			m.Marked = true
		case "failed":
			m.Failed, m.Ready = true, false
		case "notready":
			m.Ready = false
		default:
			panic(flag)
		}
	}
	return m
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		in              Input
		create          int
		delete          []string
		adopt, released []string
	}{
		"creates what is missing": {
			in: Input{Replicas: 3, Machines: []Machine{machine("a", 0)}}, create: 2,
		},
		"does nothing when complete": {
			in: Input{Replicas: 1, Machines: []Machine{machine("a", 0)}},
		},
		"waits for a slow deletion before it creates": {
			in: Input{Replicas: 1, Machines: []Machine{machine("a", 0, "deleting")}},
		},
		"never picks a Machine that is being deleted": {
			in:     Input{Replicas: 1, Machines: []Machine{machine("a", 0, "deleting", "marked"), machine("b", 0), machine("c", 1)}},
			delete: []string{"b"},
		},
		"deletes no more when those being deleted are the surplus": {
			in: Input{Replicas: 1, Machines: []Machine{machine("a", 0, "deleting"), machine("b", 0, "deleting"), machine("c", 1)}},
		},
		"takes victims in order": {
			in: Input{Replicas: 0, Machines: []Machine{
				machine("ready-new", 9), machine("ready-old", 1), machine("notready-old", 1, "notready"),
				machine("notready-new", 9, "notready"), machine("failed", 5, "failed"), machine("marked", 5, "marked"),
			}},
			delete: []string{"marked", "failed", "notready-new", "notready-old", "ready-old", "ready-new"},
		},
		"breaks ties by name": {
			in:     Input{Replicas: 1, Machines: []Machine{machine("b", 0), machine("a", 0)}},
			delete: []string{"a"},
		},
		"adopts before it creates": {
			in:     Input{Replicas: 2, Machines: []Machine{machine("a", 0, "orphan")}},
			create: 1, adopt: []string{"a"},
		},
		"adopts neither deleted, foreign nor strange Machines": {
			in: Input{Replicas: 1, Machines: []Machine{
				machine("a", 0, "orphan", "deleting"), machine("b", 0, "foreign"), machine("c", 0, "orphan", "mismatch"),
			}},
			create: 1,
		},
		"adopts no more than the slack above replicas": {
			in: Input{Replicas: 1, Machines: []Machine{
				machine("owned", 9), machine("c", 3, "orphan"), machine("a", 1, "orphan"), machine("b", 2, "orphan"),
			}},
			adopt: []string{"a", "b"}, delete: []string{"a", "b"},
		},
		"releases what the selector no longer matches and replaces it": {
			in:     Input{Replicas: 1, Machines: []Machine{machine("a", 0, "mismatch")}},
			create: 1, released: []string{"a"},
		},
		"does nothing while frozen": {
			in: Input{Replicas: 1, Frozen: true, Machines: []Machine{
				machine("a", 0), machine("b", 0), machine("c", 0, "orphan"), machine("d", 0, "mismatch"),
			}},
		},
		"creates nothing while frozen":              {in: Input{Replicas: 5, Frozen: true}},
		"does nothing when deleted":                 {in: Input{Replicas: 5, Deleting: true}},
		"does nothing while something is invisible": {in: Input{Replicas: 5, Outstanding: 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := Decide(test.in)
			if p.Create != test.create {
				t.Errorf("creates %d, want %d", p.Create, test.create)
			}
			var deleted []string
			for _, victim := range p.Delete {
				deleted = append(deleted, victim.Name)
			}
			check(t, "deletes", deleted, test.delete)
			check(t, "adopts", names(p.Adopt), test.adopt)
			check(t, "releases", names(p.Release), test.released)
			if p.Why == "" {
				t.Error("the plan says not why")
			}
		})
	}
}

func TestVictimsSayWhy(t *testing.T) {
	p := Decide(Input{Replicas: 0, Machines: []Machine{
		machine("a", 0, "marked"), machine("b", 0, "failed"), machine("c", 0, "notready"), machine("d", 0),
	}})
	var whys []string
	for _, victim := range p.Delete {
		whys = append(whys, victim.Why)
	}
	check(t, "reasons", whys, []string{"marked for deletion", "failed", "not ready", "surplus"})
}

func names(machines []Machine) []string {
	var list []string
	for _, m := range machines {
		list = append(list, m.Name)
	}
	return list
}

func check(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s %q, want %q", what, got, want)
	}
}
