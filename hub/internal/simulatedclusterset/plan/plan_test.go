package plan

import (
	"testing"

	. "github.com/onsi/gomega"
)

func selected(name string) Host { return Host{Name: name, Selected: true} }

// members are those with ordinals 0 to n-1, all on one host.
func members(host string, n int) []Member {
	var all []Member
	for ordinal := range n {
		all = append(all, Member{Host: host, Ordinal: ordinal})
	}
	return all
}

func change(all []Member, ordinal int, edit func(*Member)) []Member {
	edit(&all[ordinal])
	return all
}

func TestDecide(t *testing.T) {
	a, b := selected("a"), selected("b")
	held := Host{Name: "b", Selected: true, Held: "the agent is silent"}
	kept, deleting := func(m *Member) { m.Kept = true }, func(m *Member) { m.Deleting = true }
	for name, test := range map[string]struct {
		in   Input
		want Plan
	}{
		"from nothing, spread over the hosts": {
			Input{Replicas: 3, Hosts: []Host{b, a}},
			Plan{Missing: 3, Create: []Place{{"a", 0}, {"b", 1}, {"a", 2}}},
		},
		"the host with the fewest first": {
			Input{Replicas: 4, Hosts: []Host{a, b}, Members: members("a", 2)},
			Plan{Missing: 2, Create: []Place{{"b", 2}, {"b", 3}}},
		},
		"a gap is filled first": {
			Input{Replicas: 3, Hosts: []Host{a}, Members: []Member{{Host: "a", Ordinal: 0}, {Host: "a", Ordinal: 2}}},
			Plan{Missing: 1, Create: []Place{{"a", 1}}},
		},
		"what is being deleted keeps its place": {
			Input{Replicas: 3, Hosts: []Host{a}, Members: change(members("a", 2), 1, deleting)},
			Plan{Missing: 1, Create: []Place{{"a", 2}}},
		},
		"the highest goes first": {
			Input{Replicas: 1, Hosts: []Host{a}, Members: members("a", 3)},
			Plan{Surplus: 2, Delete: []Place{{"a", 2}, {"a", 1}}},
		},
		"what is kept stays, and the next one goes": {
			Input{Replicas: 2, Hosts: []Host{a}, Members: change(members("a", 3), 2, kept)},
			Plan{Surplus: 1, Delete: []Place{{"a", 1}}},
		},
		"nothing else goes when all are kept": {
			Input{Replicas: 0, Hosts: []Host{a}, Members: change(members("a", 1), 0, kept)},
			Plan{Surplus: 1, Kept: 1},
		},
		"no other goes in the place of one on a held host": {
			Input{Replicas: 2, Hosts: []Host{a, held}, Members: append(members("a", 2), Member{Host: "b", Ordinal: 2})},
			Plan{Surplus: 1, Held: []Place{{"b", 2}}},
		},
		"nothing goes from a host that does not exist": {
			Input{Replicas: 0, Members: members("gone", 1)},
			Plan{Surplus: 1, Held: []Place{{"gone", 0}}},
		},
		"a held host gets none": {
			Input{Replicas: 2, Hosts: []Host{a, held}},
			Plan{Missing: 2, Create: []Place{{"a", 0}, {"a", 1}}},
		},
		"a host that is held for seconds is waited for": {
			Input{Replicas: 1, Hosts: []Host{a, {Name: "b", Selected: true, Held: "starting", Passing: true}}},
			Plan{Missing: 1, Starting: true},
		},
		"hosts that are not selected or cannot be used get none": {
			Input{Replicas: 1, Hosts: []Host{{Name: "a"}, {Name: "b", Selected: true, Unusable: "it is simulated"}}},
			Plan{Missing: 1},
		},
		"a name that is taken is not passed over": {
			Input{Replicas: 2, Hosts: []Host{a}, Taken: map[int]bool{0: true}},
			Plan{Missing: 2, Taken: []int{0}, Create: []Place{{"a", 1}}},
		},
		"an orphan is adopted, also one that goes next": {
			Input{Replicas: 0, Hosts: []Host{a}, Members: []Member{{Host: "a", Ordinal: 0, Orphan: true}}},
			Plan{Surplus: 1, Adopt: []Place{{"a", 0}}},
		},
		"metadata is updated": {
			Input{Replicas: 1, Hosts: []Host{a}, Members: []Member{{Host: "a", Ordinal: 0, Outdated: true}}},
			Plan{Update: []Place{{"a", 0}}},
		},
		"not on a held host": {
			Input{Replicas: 1, Hosts: []Host{held}, Members: []Member{{Host: "b", Ordinal: 0, Outdated: true}}},
			Plan{},
		},
		"a frozen set does nothing": {
			Input{Replicas: 1, Frozen: true, Hosts: []Host{a}, Members: members("a", 3)},
			Plan{Surplus: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(*Decide(&test.in)).To(Equal(test.want))
		})
	}
}

func TestOrdinalOf(t *testing.T) {
	for name, want := range map[string]int{"s-0": 0, "s-12": 12, "s-01": -1, "s--1": -1, "s-": -1, "s": -1, "t-0": -1, "s-x-0": -1, "s-+1": -1} {
		ordinal, is := OrdinalOf("s", name)
		NewWithT(t).Expect(is).To(Equal(want >= 0), name)
		if is {
			NewWithT(t).Expect(ordinal).To(Equal(want), name)
		}
	}
}
