package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// world is what a set's decisions change.
type world struct {
	in Input
	t  *rapid.T
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t}
	for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "hosts")] {
		w.in.Hosts = append(w.in.Hosts, Host{Name: name, Selected: true})
	}
	return w
}

func (w *world) host(name string) *Host {
	for i := range w.in.Hosts {
		if w.in.Hosts[i].Name == name {
			return &w.in.Hosts[i]
		}
	}
	w.t.Fatalf("no host %s", name)
	return nil
}

// disturb lets anything happen that others may do: freezes, annotations, removals that finish, and edits of replicas.
func (w *world) disturb() {
	for i := range w.in.Hosts {
		host := &w.in.Hosts[i]
		host.Held, host.Passing = "", false
		if rapid.IntRange(0, 3).Draw(w.t, "freezes") == 0 {
			host.Held, host.Passing = "frozen", rapid.Bool().Draw(w.t, "passing")
		}
	}
	for i := range w.in.Members {
		w.in.Members[i].Kept = rapid.IntRange(0, 5).Draw(w.t, "kept") == 0
		w.in.Members[i].Orphan = !w.in.Members[i].Deleting && rapid.IntRange(0, 9).Draw(w.t, "orphan") == 0
	}
	w.finishDeletions(func() bool { return rapid.Bool().Draw(w.t, "gone") })
	if rapid.IntRange(0, 2).Draw(w.t, "scales") == 0 {
		w.in.Replicas = rapid.IntRange(0, 8).Draw(w.t, "replicas")
	}
}

func (w *world) finishDeletions(gone func() bool) {
	w.in.Members = slices.DeleteFunc(w.in.Members, func(m Member) bool { return m.Deleting && gone() })
}

func (w *world) find(at Place) *Member {
	for i := range w.in.Members {
		if m := &w.in.Members[i]; m.Ordinal == at.Ordinal && m.Host == at.Host {
			return m
		}
	}
	w.t.Fatalf("no member %v", at)
	return nil
}

// step decides, holds the decision against the rules, and carries it out.
func (w *world) step() *Plan {
	t, p := w.t, Decide(&w.in)
	before := len(w.in.Members)
	if before+len(p.Create) > max(w.in.Replicas, before) {
		t.Fatalf("%d members and %d more for %d replicas", before, len(p.Create), w.in.Replicas)
	}
	lowest := -1
	for _, at := range p.Delete {
		m := w.find(at)
		if m.Kept || m.Deleting || w.host(at.Host).Held != "" {
			t.Fatalf("%+v is deleted", m)
		}
		lowest = at.Ordinal
	}
	for _, m := range w.in.Members {
		isTaken := slices.Contains(p.Delete, Place{m.Host, m.Ordinal})
		if lowest >= 0 && m.Ordinal > lowest && !m.Kept && !m.Deleting && !m.Orphan && w.host(m.Host).Held == "" && !isTaken {
			t.Fatalf("%+v is passed over for %d", m, lowest)
		}
	}
	for _, at := range p.Adopt {
		w.find(at).Orphan = false
	}
	for _, at := range p.Delete {
		w.find(at).Deleting = true
	}
	for _, at := range p.Create {
		host := w.host(at.Host)
		if host.Held != "" || slices.ContainsFunc(w.in.Members, func(m Member) bool { return m.Ordinal == at.Ordinal }) {
			t.Fatalf("%v is created although its host is held or the ordinal is there", at)
		}
		w.in.Members = append(w.in.Members, Member{Host: at.Host, Ordinal: at.Ordinal})
	}
	return p
}

// Claim: A set makes no surplus, deletes nothing held, and converges. Broken: members that are being deleted do not count; kept ones are taken.
func TestASetConvergesWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 20).Draw(t, "disturbances") {
			w.disturb()
			w.step()
		}
		for i := range w.in.Hosts {
			w.in.Hosts[i].Held, w.in.Hosts[i].Passing = "", false
		}
		for i := range w.in.Members {
			w.in.Members[i].Kept = false
		}
		w.in.Replicas = rapid.IntRange(0, 8).Draw(t, "wanted")
		for range 4 {
			w.step()
			w.finishDeletions(func() bool { return true })
		}
		if p := w.step(); !p.Empty() || len(w.in.Members) != w.in.Replicas {
			t.Fatalf("%d members for %d replicas, and still %+v", len(w.in.Members), w.in.Replicas, *p)
		}
	})
}

func TestASetIsScaledUpAndDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, replicas := range []int{5, 20, 3} {
			for w.in.Replicas = replicas; !w.step().Empty(); {
				w.finishDeletions(func() bool { return rapid.Bool().Draw(t, "gone") })
			}
			w.finishDeletions(func() bool { return true })
		}
		var ordinals []int
		for _, m := range w.in.Members {
			ordinals = append(ordinals, m.Ordinal)
		}
		if slices.Sort(ordinals); !slices.Equal(ordinals, []int{0, 1, 2}) {
			t.Fatalf("left are %v", ordinals)
		}
	})
}
