package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	machineset "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// world simulates one deployment's sets, with the real planner of MachineSets choosing the victims.
type world struct {
	t       *rapid.T
	in      Input
	sets    []*simulatedSet
	current *simulatedSet
	next    int
	log     []string
}

type simulatedSet struct {
	name     string
	created  time.Time
	replicas int
	machines []machineset.Machine
}

func drawWorld(t *rapid.T, strategy v1alpha1.MachineDeploymentStrategy) *world {
	w := &world{t: t, in: Input{Replicas: rapid.IntRange(0, 12).Draw(t, "replicas"), Strategy: strategy}}
	w.in.Paused = rapid.IntRange(0, 5).Draw(t, "paused") == 0
	for i := range rapid.IntRange(0, 3).Draw(t, "sets") {
		s := &simulatedSet{name: fmt.Sprintf("s%d", i), created: start.Add(time.Duration(i)), replicas: rapid.IntRange(0, 8).Draw(t, "spec")}
		for range rapid.IntRange(0, 8).Draw(t, "machines") {
			m := w.machine()
			m.Ready, m.Deleting = rapid.Bool().Draw(t, "available"), rapid.IntRange(0, 3).Draw(t, "deleting") == 0
			s.machines = append(s.machines, m)
		}
		w.sets = append(w.sets, s)
	}
	if len(w.sets) > 0 && rapid.Bool().Draw(t, "new set exists") {
		w.current = w.sets[len(w.sets)-1]
	}
	return w
}

func drawRolling(t *rapid.T) v1alpha1.MachineDeploymentStrategy {
	draw := func(name string) *intstr.IntOrString {
		value := intstr.FromInt32(rapid.Int32Range(0, 4).Draw(t, name))
		if rapid.Bool().Draw(t, name+" in percent") {
			value = intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(0, 100).Draw(t, name)))
		}
		return &value
	}
	return v1alpha1.MachineDeploymentStrategy{
		Type:          v1alpha1.RollingUpdate,
		RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: draw("surge"), MaxUnavailable: draw("unavailable")},
	}
}

func (w *world) machine() machineset.Machine {
	w.next++
	name := fmt.Sprintf("m%03d", w.next)
	return machineset.Machine{Name: name, UID: types.UID(name), Created: start.Add(time.Duration(w.next)), Owned: true, Matches: true}
}

func (s *simulatedSet) facts() Set {
	f := Set{Name: s.name, Created: s.created, Replicas: s.replicas, Actual: len(s.machines)}
	for _, m := range s.machines {
		if !m.Deleting {
			f.Active++
			if m.Ready {
				f.Available++
			}
		}
	}
	return f
}

func (w *world) input() Input {
	in := w.in
	in.New, in.Old = nil, nil
	for _, s := range w.sets {
		facts := s.facts()
		if s == w.current {
			in.New = &facts
		} else {
			in.Old = append(in.Old, facts)
		}
	}
	return in
}

// decide carries out what the planner says now and reports whether it said anything.
func (w *world) decide() bool {
	p := Decide(w.input())
	w.log = append(w.log, fmt.Sprintf("%+v: %s", w.input(), describe(p)))
	if p.CreateNew {
		w.current = &simulatedSet{name: "new", created: start.Add(time.Hour), replicas: p.NewReplicas}
		w.sets = append(w.sets, w.current)
	}
	for _, scale := range p.Scale {
		s := w.sets[slices.IndexFunc(w.sets, func(s *simulatedSet) bool { return s.name == scale.Name })]
		if scale.From != s.replicas || scale.To < 0 || scale.To == scale.From {
			w.t.Fatalf("strange scale %+v of a set with %d", scale, s.replicas)
		}
		s.replicas = scale.To
	}
	return !p.Empty()
}

// settle lets one set's controller do its work.
func (s *simulatedSet) settle(w *world) bool {
	p := machineset.Decide(machineset.Input{Replicas: s.replicas, Machines: s.machines})
	for _, victim := range p.Delete {
		s.machines[slices.IndexFunc(s.machines, func(m machineset.Machine) bool { return m.UID == victim.UID })].Deleting = true
	}
	for range p.Create {
		s.machines = append(s.machines, w.machine())
	}
	return !p.Empty()
}

// live lets one random thing happen in the workload cluster: a Machine becomes available, or one that is
// being deleted goes.
func (w *world) live() bool {
	type place struct {
		set   *simulatedSet
		index int
	}
	var pending []place
	for _, s := range w.sets {
		for i, m := range s.machines {
			if m.Deleting || !m.Ready {
				pending = append(pending, place{s, i})
			}
		}
	}
	if len(pending) == 0 {
		return false
	}
	at := rapid.SampledFrom(pending).Draw(w.t, "what happens")
	if machine := &at.set.machines[at.index]; !machine.Deleting {
		machine.Ready = true
		return true
	}
	at.set.machines = slices.Delete(at.set.machines, at.index, at.index+1)
	return true
}

// step lets a random controller, or the world, do something; it reports false when nothing is left to do.
func (w *world) step() bool {
	actors := []func() bool{w.decide, w.live}
	for _, s := range w.sets {
		actors = append(actors, func() bool { return s.settle(w) })
	}
	for _, act := range rapid.Permutation(actors).Draw(w.t, "who acts") {
		if act() {
			return true
		}
	}
	return false
}

func (w *world) available() (now, surely int) {
	for _, s := range w.sets {
		facts := s.facts()
		now += facts.Available
		surely += facts.keeps(facts.Replicas)
	}
	return now, surely
}

func (w *world) totals() (spec, occupied, machines int) {
	for _, s := range w.sets {
		spec += s.replicas
		occupied += s.facts().occupies()
		machines += len(s.machines)
	}
	return spec, occupied, machines
}

func TestRolloutStaysWithinItsBudgetAndConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, drawRolling(t))
		surge, unavailable := Bounds(w.in.Strategy, w.in.Replicas)
		_, most, _ := w.totals()
		most = max(most, w.in.Replicas+surge)
		_, least := w.available()
		least = min(least, w.in.Replicas-unavailable)
		for i := 0; w.step(); i++ {
			if _, occupied, machines := w.totals(); occupied > most || machines > most {
				t.Fatalf("%d machines, %d possible: more than %d\n%q", machines, occupied, most, w.log)
			}
			if now, surely := w.available(); now < least || surely < least {
				t.Fatalf("%d available, %d of them for sure: fewer than %d\n%q", now, surely, least, w.log)
			}
			if i > 2000 {
				t.Fatalf("does not end\n%q", w.log)
			}
		}
		w.checkEnd(surge)
	})
}

func TestRecreateAndOnDeleteNeverExceedReplicasAndConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, rapid.SampledFrom([]v1alpha1.MachineDeploymentStrategy{recreate, onDelete}).Draw(t, "strategy"))
		_, most, _ := w.totals()
		most = max(most, w.in.Replicas)
		for i := 0; w.step(); i++ {
			if _, occupied, _ := w.totals(); occupied > most {
				t.Fatalf("%d machines possible: more than %d\n%q", occupied, most, w.log)
			}
			if i > 2000 {
				t.Fatalf("does not end\n%q", w.log)
			}
		}
		w.checkEnd(0)
	})
}

// A Machine may lose its readiness at any time. While that happens no budget can be promised, but when it
// ends the rollout must too.
func TestRolloutConvergesAfterFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, drawRolling(t))
		surge, _ := Bounds(w.in.Strategy, w.in.Replicas)
		_, most, _ := w.totals()
		most = max(most, w.in.Replicas+surge)
		failures := rapid.IntRange(0, 10).Draw(t, "failures")
		for i := 0; w.step(); i++ {
			if failures > 0 && len(w.sets) > 0 {
				failures--
				s := rapid.SampledFrom(w.sets).Draw(t, "failing set")
				for j := range s.machines {
					s.machines[j].Ready = false
				}
			}
			if _, occupied, _ := w.totals(); occupied > most {
				t.Fatalf("%d machines possible: more than %d\n%q", occupied, most, w.log)
			}
			if i > 3000 {
				t.Fatalf("does not end\n%q", w.log)
			}
		}
		w.checkEnd(surge)
	})
}

// checkEnd says what must hold when nothing is left to do.
func (w *world) checkEnd(surge int) {
	spec, occupied, machines := w.totals()
	if spec != occupied || spec != machines {
		w.t.Fatalf("ended with %d wanted, %d possible, %d machines\n%q", spec, occupied, machines, w.log)
	}
	if w.in.Paused {
		if len(w.sets) > 0 && (spec < w.in.Replicas || spec > w.in.Replicas+surge) {
			w.t.Fatalf("paused, ended with %d machines for %d replicas\n%q", spec, w.in.Replicas, w.log)
		}
		return
	}
	if spec != w.in.Replicas {
		w.t.Fatalf("ended with %d machines for %d replicas\n%q", spec, w.in.Replicas, w.log)
	}
	if w.in.Strategy.Type != v1alpha1.OnDelete && w.current.replicas != w.in.Replicas {
		w.t.Fatalf("ended with %d of %d machines of the current template\n%q", w.current.replicas, w.in.Replicas, w.log)
	}
}
