package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// world is a simulated namespace with one set in it.
type world struct {
	replicas int
	machines []Machine
	next     int
}

func drawWorld(t *rapid.T) *world {
	w := &world{replicas: rapid.IntRange(0, 8).Draw(t, "replicas")}
	for range rapid.IntRange(0, 14).Draw(t, "machines") {
		m := w.new()
		m.Ready, m.Failed = rapid.Bool().Draw(t, "ready"), rapid.Bool().Draw(t, "failed")
		m.Marked, m.Deleting = rapid.Bool().Draw(t, "marked"), rapid.Bool().Draw(t, "deleting")
		m.Matches = rapid.Bool().Draw(t, "matches")
		m.Owned = rapid.Bool().Draw(t, "owned")
		m.Orphan = !m.Owned && rapid.Bool().Draw(t, "orphan")
		m.Named = m.Orphan && rapid.Bool().Draw(t, "named")
		w.machines = append(w.machines, m)
	}
	return w
}

func (w *world) new() Machine {
	w.next++
	name := fmt.Sprintf("m%03d", w.next)
	return Machine{Name: name, UID: types.UID(name), Created: start.Add(time.Duration(w.next) * time.Second), Owned: true, Matches: true}
}

func (w *world) owned() (total, active int) {
	for _, m := range w.machines {
		if m.Owned && (m.Matches || m.Deleting) {
			total++
			if !m.Deleting {
				active++
			}
		}
	}
	return total, active
}

func (w *world) at(uid types.UID) *Machine {
	return &w.machines[slices.IndexFunc(w.machines, func(m Machine) bool { return m.UID == uid })]
}

// carryOut does what p says, as the API server would.
func (w *world) carryOut(t *rapid.T, p Plan) {
	for _, victim := range p.Delete {
		m := w.at(victim.UID)
		if m.Deleting {
			t.Fatalf("%s is deleted twice", m.Name)
		}
		m.Deleting = true
	}
	for _, adopted := range p.Adopt {
		m := w.at(adopted.UID)
		if !m.Orphan {
			t.Fatalf("%s is adopted from another", m.Name)
		}
		m.Owned, m.Orphan = true, false
	}
	for _, released := range p.Release {
		m := w.at(released.UID)
		m.Owned, m.Orphan = false, true
	}
	for range p.Create {
		w.machines = append(w.machines, w.new())
	}
}

// finishOneDeletion lets a random Machine that is being deleted go.
func (w *world) finishOneDeletion(t *rapid.T) {
	var going []int
	for i, m := range w.machines {
		if m.Deleting {
			going = append(going, i)
		}
	}
	if len(going) > 0 {
		i := rapid.SampledFrom(going).Draw(t, "gone")
		w.machines = slices.Delete(w.machines, i, i+1)
	}
}

func TestSetConvergesWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		foreign := slices.DeleteFunc(slices.Clone(w.machines), func(m Machine) bool { return m.Owned || m.Orphan })
		for range 100 {
			before, _ := w.owned()
			p := Decide(Input{Replicas: w.replicas, Machines: shuffled(t, w.machines)})
			if p.Create > 0 && len(p.Delete) > 0 {
				t.Fatal("creates and deletes at once")
			}
			w.carryOut(t, p)
			after, active := w.owned()
			if p.Create > 0 && after > w.replicas {
				t.Fatalf("created up to %d machines for %d replicas", after, w.replicas)
			}
			if after > max(before, w.replicas+AdoptionSlack) {
				t.Fatalf("owns %d machines for %d replicas", after, w.replicas)
			}
			byLabels := func(m Machine) bool { return !m.Named }
			if slices.ContainsFunc(p.Adopt, byLabels) && after > w.replicas {
				t.Fatalf("adopted by labels alone up to %d machines for %d replicas", after, w.replicas)
			}
			if active < min(before, w.replicas) && len(p.Delete) > 0 {
				t.Fatalf("deleted down to %d machines for %d replicas", active, w.replicas)
			}
			if p.Empty() && after == w.replicas && active == after {
				for _, m := range foreign {
					if m.Deleting { // Another client's deletion may have finished.
						continue
					}
					if *w.at(m.UID) != m {
						t.Fatalf("touched %s of another owner", m.Name)
					}
				}
				return
			}
			w.finishOneDeletion(t)
		}
		t.Fatal("did not converge")
	})
}

func TestFrozenSetDoesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		if p := Decide(Input{Replicas: w.replicas, Machines: w.machines, Frozen: true}); !p.Empty() {
			t.Fatalf("frozen, and yet %+v", p)
		}
	})
}

func TestVictimsDoNotDependOnTheOrderOfTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		one := Decide(Input{Replicas: w.replicas, Machines: w.machines})
		other := Decide(Input{Replicas: w.replicas, Machines: shuffled(t, w.machines)})
		if !slices.Equal(one.Delete, other.Delete) || !slices.Equal(one.Adopt, other.Adopt) {
			t.Fatalf("%+v and %+v", one, other)
		}
	})
}

func shuffled(t *rapid.T, machines []Machine) []Machine {
	return rapid.Permutation(machines).Draw(t, "order")
}

// What the deployment leaves no room for, or makes with its current template, and what is invalid, is not made; the rest of
// what the set has to do is done all the same.
func TestASetNeverMakesMoreThanItMay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		in := Input{Replicas: w.replicas, Machines: w.machines}
		free := Decide(in)
		in.Room = new(rapid.IntRange(-3, 8).Draw(t, "room"))
		bounded := Decide(in)
		if want := min(free.Create, max(*in.Room, 0)); bounded.Create != want {
			t.Fatalf("makes %d with room for %d, want %d", bounded.Create, *in.Room, want)
		}
		in.LeftToNew = true
		left := Decide(in)
		if left.Create != 0 || left.After == 0 {
			t.Fatalf("makes %d that are left to the new set, and looks again after %s", left.Create, left.After)
		}
		for _, p := range []Plan{bounded, left} {
			if len(p.Delete) != len(free.Delete) || len(p.Adopt) != len(free.Adopt) || len(p.Release) != len(free.Release) {
				t.Fatalf("%+v beside %+v", p, free)
			}
		}
		in.Invalid = "for a reason"
		if p := Decide(in); !p.Empty() {
			t.Fatalf("invalid, and yet %+v", p)
		}
	})
}
