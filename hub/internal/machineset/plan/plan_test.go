package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// machine makes an owned, matching, available Machine, created age after start; the flags change that.
func machine(name string, age time.Duration, flags ...string) Machine {
	m := Machine{
		Name: name, UID: types.UID(name), Created: start.Add(age), Owned: true, Matches: true, Ready: true, Available: true,
		Priority: v1alpha1.DefaultDeletionPriority,
	}
	for _, flag := range flags {
		switch flag {
		case "orphan":
			m.Owned, m.Orphan = false, true
		case "named":
			m.Named = true
		case "foreign":
			m.Owned = false
		case "mismatch":
			m.Matches = false
		case "deleting":
			m.Deleting = true
		case "marked":
			m.Marked, m.MarkedAt, m.MarkSeen = true, start, start
		case "marked later":
			m.Marked, m.MarkedAt, m.MarkSeen = true, start.Add(time.Minute), start
		case "stale mark":
			m.Marked, m.MarkedAt, m.MarkSeen = true, start.Add(time.Minute), start.Add(-MarkLifetime)
		case "cheap":
			m.Priority = 1
		case "dear":
			m.Priority = 9
		case "failed": // For a reason that another Machine would have too.
			m.Failed, m.Unhealthy, m.Ready, m.Available, m.Reason = true, true, false, false, "InvalidConfiguration"
		case "timed out":
			m.Failed, m.Unhealthy, m.Replaceable, m.Ready, m.Available, m.Reason = true, true, true, false, false, "HealthTimeout"
		case "unhealthy":
			m.Unhealthy = true
		case "notready":
			m.Ready, m.Available = false, false
		case "notavailable":
			m.Available = false
		case "remediated":
			m.Remediated = true
		case "replacement":
			m.Replacement, m.Ready, m.Available = true, false, false
		case "undecodable": // Nothing but its metadata is known.
			m.Undecodable, m.Ready, m.Available = true, false, false
		case "outdated":
			m.Outdated = true
		default:
			panic(flag)
		}
	}
	return m
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		in                Input
		create            int
		delete            []string
		adopt, released   []string
		unmarked, updated []string
		after             time.Duration
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
		"counts one that cannot be decoded, and makes none in its place": {
			in: Input{Replicas: 2, Machines: []Machine{machine("a", 0, "undecodable"), machine("b", 0)}},
		},
		// Edge case: Undecodable Machines could be chosen. Also: "counts one that cannot be decoded, and makes none in its place".
		"never chooses one that cannot be decoded": {
			in: Input{Replicas: 0, Machines: []Machine{
				machine("a", 0, "undecodable"), machine("b", 0, "undecodable", "mismatch"), machine("c", 0, "undecodable", "orphan"),
				machine("d", 0, "undecodable", "timed out"), machine("e", 0),
			}},
			delete: []string{"e"},
		},
		"does not take others for one that cannot be decoded": {
			in: Input{Replicas: 1, Machines: []Machine{machine("a", 0, "undecodable"), machine("b", 0)}},
		},
		"takes victims in order": {
			in: Input{Replicas: 0, Machines: []Machine{
				machine("ready-new", 9), machine("ready-old", 1), machine("notready-old", 1, "notready"),
				machine("notready-new", 9, "notready"), machine("failed", 5, "failed"), machine("marked", 5, "marked"),
				machine("marked-later", 6, "marked later"), machine("cheap-new", 8, "cheap"), machine("cheap-failed", 8, "cheap", "failed"),
				machine("dear-failed", 0, "dear", "failed"), machine("unhealthy", 9, "unhealthy"), machine("fresh", 0, "notavailable"),
				machine("stale-mark", 9, "stale mark"),
			}},
			delete: []string{
				"marked-later", "marked", "cheap-failed", "cheap-new", "failed", "notready-old", "notready-new", "fresh", "unhealthy",
				"ready-old", "ready-new", "stale-mark", "dear-failed",
			},
			unmarked: []string{"stale-mark"},
		},
		"takes the newest first if the policy says so": {
			in:     Input{Replicas: 1, Policy: v1alpha1.DeleteNewest, Machines: []Machine{machine("a", 0), machine("b", 1), machine("c", 2)}},
			delete: []string{"c", "b"},
		},
		"takes unhealthy ones first under every policy": {
			in:     Input{Replicas: 1, Policy: v1alpha1.DeleteNewest, Machines: []Machine{machine("a", 0, "notready"), machine("b", 1)}},
			delete: []string{"a"},
		},
		"takes the Machine of the latest mark": {
			in: Input{Replicas: 2, Machines: []Machine{
				machine("left-behind", 0, "marked"), machine("meant", 1, "marked later"), machine("other", 2),
			}},
			delete: []string{"meant"},
		},
		"does not take a Machine for a stale mark": {
			in:     Input{Replicas: 1, Machines: []Machine{machine("a", 0), machine("b", 1, "stale mark")}},
			delete: []string{"a"}, unmarked: []string{"b"},
		},
		"takes a stale mark off although nothing is to go": {
			in:       Input{Replicas: 1, Machines: []Machine{machine("b", 1, "stale mark")}},
			unmarked: []string{"b"},
		},
		"leaves a good mark alone, and looks again when it is stale": {
			in:    Input{Replicas: 1, Machines: []Machine{machine("b", 1, "marked")}},
			after: MarkLifetime,
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
				machine("owned", 9), machine("c", 3, "orphan", "named"), machine("a", 1, "orphan", "named"), machine("b", 2, "orphan", "named"),
			}},
			adopt: []string{"a", "b"}, delete: []string{"a", "b"},
		},
		"adopts what matches by its labels alone only up to replicas": {
			in: Input{Replicas: 2, Machines: []Machine{
				machine("owned", 9), machine("c", 3, "orphan"), machine("a", 1, "orphan"), machine("b", 2, "orphan"),
			}},
			adopt: []string{"a"},
		},
		"adopts none by its labels alone while all its own exist": {
			in: Input{Replicas: 1, Machines: []Machine{machine("owned", 9, "deleting"), machine("a", 1, "orphan"), machine("b", 2, "orphan")}},
		},
		"releases what the selector no longer matches, and makes none before it is released": {
			in:       Input{Replicas: 1, Machines: []Machine{machine("a", 0, "mismatch")}},
			released: []string{"a"},
		},
		"brings Machines up to date, those that go too, but no strangers": {
			in: Input{Replicas: 2, Machines: []Machine{
				machine("a", 0, "outdated"), machine("b", 0, "outdated", "deleting"), machine("c", 0, "outdated", "foreign"),
			}},
			updated: []string{"a", "b"},
		},
		"creates nothing while creation is held":   {in: Input{Replicas: 5, NoCreation: "refused"}},
		"creates no more than is allowed":          {in: Input{Replicas: 5, MostCreations: 3}, create: 3},
		"does nothing while Machines change hands": {in: transferring()},
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
			test.in.Now = start
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
			check(t, "unmarks", names(p.Unmark), test.unmarked)
			check(t, "updates", names(p.Update), test.updated)
			if p.After != test.after {
				t.Errorf("looks again after %s, want %s", p.After, test.after)
			}
			if p.Why == "" {
				t.Error("the plan says not why")
			}
		})
	}
}

// transferring is a set that would have everything to do.
func transferring() Input {
	return Input{Replicas: 4, Transferring: true, Machines: []Machine{
		machine("a", 0, "orphan"), machine("b", 0, "mismatch"), machine("c", 0, "stale mark"), machine("d", 0, "outdated"),
	}}
}

func TestRandomVictimsAreTheSameEachTime(t *testing.T) {
	var machines []Machine
	for i := range 20 {
		machines = append(machines, machine(fmt.Sprintf("m%02d", i), time.Duration(i)))
	}
	in := Input{Now: start, Replicas: 10, Policy: v1alpha1.DeleteRandom, Machines: machines}
	first := Decide(in).Delete
	if again := Decide(in).Delete; !slices.Equal(first, again) {
		t.Errorf("took %v, then %v", first, again)
	}
	in.Policy = v1alpha1.DeleteOldest
	if oldest := Decide(in).Delete; slices.Equal(first, oldest) {
		t.Errorf("random is the oldest ten: %v", oldest)
	}
	rest := slices.DeleteFunc(slices.Clone(machines), func(m Machine) bool { return m.Name == first[0].Name })
	in.Policy, in.Machines, in.Replicas = v1alpha1.DeleteRandom, rest, 10
	if fewer := Decide(in).Delete; !slices.Equal(first[1:], fewer) {
		t.Errorf("without %s it took %v, want the others of %v", first[0].Name, fewer, first)
	}
}

func TestVictimsSayWhy(t *testing.T) {
	p := Decide(Input{Now: start, Replicas: 0, Machines: []Machine{
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
