package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// draw makes a world in any state, with controllers that have seen all of it.
func draw(t *rapid.T, strategy v1alpha1.MachineDeploymentStrategy) *world {
	w := &world{
		in:     Input{Replicas: rapid.IntRange(0, 12).Draw(t, "replicas"), Strategy: strategy},
		policy: rapid.SampledFrom([]v1alpha1.DeletePolicy{v1alpha1.DeleteOldest, v1alpha1.DeleteNewest, v1alpha1.DeleteRandom}).Draw(t, "policy"),
		choose: func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) },
		fatal:  t.Fatalf,
		update: func(*simulatedMachine) string { return "" },
	}
	odd := rapid.Bool().Draw(t, "marks and priorities")
	for range rapid.IntRange(0, 3).Draw(t, "sets") {
		s := w.add(rapid.IntRange(0, 8).Draw(t, "spec"))
		if rapid.Bool().Draw(t, "sized") {
			s.sizedFor = new(rapid.IntRange(0, 12).Draw(t, "sized for"))
		}
		for range rapid.IntRange(0, 8).Draw(t, "machines") {
			m := w.machine(s)
			m.ready, m.deleting = rapid.Bool().Draw(t, "ready"), rapid.IntRange(0, 3).Draw(t, "deleting") == 0
			if odd {
				m.marked, m.priority = rapid.IntRange(0, 4).Draw(t, "marked") == 0, rapid.IntRange(2, 4).Draw(t, "priority")
			}
			s.machines = append(s.machines, m)
		}
	}
	if odd {
		// Which Machines a scale-down of the deployment takes is up to those who mark them, available or not.
		wanted := 0
		for _, s := range w.sets {
			wanted += s.replicas
		}
		w.in.Replicas = max(w.in.Replicas, wanted)
	}
	if len(w.sets) > 0 && rapid.Bool().Draw(t, "new set exists") {
		w.current = rapid.SampledFrom(w.sets).Draw(t, "new set")
	}
	return w
}

// drawRolled makes a world in which everything rests, and a new template has come.
func drawRolled(t *rapid.T, strategy v1alpha1.MachineDeploymentStrategy) *world {
	w := draw(t, strategy)
	w.sets, w.current, w.revision = nil, nil, 0
	w.filled(w.in.Replicas)
	return w
}

func drawValue(t *rapid.T, name string, least int) *intstr.IntOrString {
	value := intstr.FromInt32(rapid.Int32Range(int32(least), 4).Draw(t, name))
	if rapid.Bool().Draw(t, name+" in percent") {
		value = intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(least, 100).Draw(t, name)))
	}
	return &value
}

func drawRolling(t *rapid.T) v1alpha1.MachineDeploymentStrategy {
	return v1alpha1.MachineDeploymentStrategy{
		Type: v1alpha1.RollingUpdate,
		RollingUpdate: &v1alpha1.RollingUpdateBounds{
			MaxSurge: drawValue(t, "surge", 0), MaxUnavailable: drawValue(t, "unavailable", 0),
		},
	}
}

func drawInPlace(t *rapid.T) v1alpha1.MachineDeploymentStrategy {
	return v1alpha1.MachineDeploymentStrategy{
		Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{MaxUnavailable: drawValue(t, "unavailable", 1)},
	}
}

func drawStrategy(t *rapid.T) v1alpha1.MachineDeploymentStrategy {
	switch rapid.IntRange(0, 3).Draw(t, "strategy") {
	case 0:
		return drawRolling(t)
	case 1:
		return drawInPlace(t)
	case 2:
		return recreate
	}
	return onDelete
}

// Whatever order the controllers and the agent act in, however they die, and whatever they start with.
func TestBudgetHoldsAtEachStepAndTheRolloutEnds(t *testing.T) {
	for name, strategy := range map[string]func(*rapid.T) v1alpha1.MachineDeploymentStrategy{
		"RollingUpdate": drawRolling, "InPlace": drawInPlace,
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			w := draw(t, strategy(t))
			w.in.Paused = rapid.IntRange(0, 5).Draw(t, "paused") == 0
			w.crashes = rapid.IntRange(0, 5).Draw(t, "crashes")
			most, least := w.bounds()
			w.run(func() { w.check(most, least) })
			w.rested()
			if !w.in.Paused {
				w.rolled()
			}
		}))
	}
}

// A scale-up amid a rollout is shared out between the sets that serve, whatever the controllers are about when it comes.
// Edge case: A scale-up went all to the new set. Also: "scaled up between two steps: both sets get their share"; hub/internal/machinedeployment TestAScaleUpBetweenTwoStepsIsSharedOut.
func TestAScaleUpIsSharedOutWheneverItComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawRolled(t, rolling("2", "0"))
		w.sets, w.revision, w.in.Replicas = nil, 0, 10
		old := w.filled(10)
		old.sizedFor = new(10)
		for range rapid.IntRange(5, 60).Draw(t, "steps before") {
			w.step()
		}
		before := old.replicas
		if before < 3 || w.current == nil || w.current.replicas == 0 {
			return
		}
		w.in.Replicas, w.pending = 20, nil // The controller acts on no other generation than the one that it decided on.
		w.note("scaled to 20")
		most, least := w.bounds()
		peak := before
		w.run(func() {
			w.check(most, min(least, 8)) // What was available when 10 were asked for.
			peak = max(peak, old.replicas)
		})
		w.rested()
		w.rolled()
		if peak == before {
			t.Fatalf("the old set got none of 10 more machines\n%s", strings.Join(w.log, "\n"))
		}
	})
}

// A scale-down amid a rollout takes the Machine that is marked for it, in whichever set it is.
// Edge case: The autoscaler's mark was ignored. Also: "scaled down amid a rollout: the marked machine goes".
func TestAScaleDownAmidARolloutTakesTheMarkedMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawRolled(t, rolling(fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "surge")), "0"))
		w.sets, w.revision, w.in.Replicas = nil, 0, 10
		old := w.filled(rapid.IntRange(1, 9).Draw(t, "old"))
		w.current = w.filled(10 - len(old.machines))
		old.sizedFor, w.current.sizedFor = new(10), new(10)
		set := rapid.SampledFrom(w.sets).Draw(t, "set of the marked machine")
		marked := rapid.SampledFrom(set.machines).Draw(t, "marked machine")
		marked.marked = true
		w.in.Replicas = 9
		most, least := w.bounds()
		w.run(func() {
			w.check(most, least)
			if gone := 10 - len(w.names()); gone > 0 && slices.Contains(w.names(), marked.name) && !marked.deleting {
				t.Fatalf("%s stayed when the first one went\n%s", marked.name, strings.Join(w.log, "\n"))
			}
		})
		w.rested()
		w.rolled()
	})
}

func TestRecreateAndOnDeleteNeverExceedReplicasAndEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t, rapid.SampledFrom([]v1alpha1.MachineDeploymentStrategy{recreate, onDelete}).Draw(t, "strategy"))
		w.crashes = rapid.IntRange(0, 5).Draw(t, "crashes")
		most, _ := w.bounds()
		w.run(func() { w.check(most, 0) })
		w.rested()
		if w.in.Strategy.Type == v1alpha1.Recreate {
			w.rolled()
		}
	})
}

// An update in place keeps each Machine: none is lost, none is made, none is in two sets.
func TestInPlaceKeepsEachMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawRolled(t, drawInPlace(t))
		w.crashes = rapid.IntRange(0, 8).Draw(t, "crashes")
		before := w.names()
		most, least := w.bounds()
		w.run(func() {
			w.check(most, least)
			if names := w.names(); !slices.Equal(names, before) {
				t.Fatalf("the machines are %v, not %v\n%s", names, before, strings.Join(w.log, "\n"))
			}
		})
		w.rested()
		w.rolled()
	})
}

// names are all Machines, sorted; one that is in two sets is there twice.
func (w *world) names() []string {
	var names []string
	for _, s := range w.sets {
		for _, m := range s.machines {
			names = append(names, m.name)
		}
	}
	slices.Sort(names)
	return names
}

// Machines that cannot be updated in place are replaced, within the same budget; the others stay.
func TestInPlaceReplacesWhatItCannotUpdate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawRolled(t, drawInPlace(t))
		w.crashes = rapid.IntRange(0, 5).Draw(t, "crashes")
		unable := map[string]bool{}
		for _, name := range w.names() {
			unable[name] = rapid.Bool().Draw(t, name+" is unable")
		}
		before := w.names()
		w.update = func(m *simulatedMachine) string {
			if unable[m.name] {
				return v1alpha1.ReasonInPlaceUnsupported
			}
			return ""
		}
		most, least := w.bounds()
		w.run(func() { w.check(most, least) })
		w.rested()
		w.rolled()
		after := w.names()
		for _, name := range before {
			if slices.Contains(after, name) == unable[name] {
				t.Fatalf("%s is unable: %t, and there: %t\n%s", name, unable[name], !unable[name], strings.Join(w.log, "\n"))
			}
		}
	})
}

// Updates that fail use the budget up, and then the rollout stops: it never makes more Machines unavailable.
func TestInPlaceStopsAtFailedUpdates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawRolled(t, drawInPlace(t))
		w.update = func(*simulatedMachine) string { return v1alpha1.ReasonUpdateFailed }
		_, unavailable := w.in.Strategy.Bounds(w.in.Replicas)
		w.run(func() { w.check(w.in.Replicas, w.in.Replicas-unavailable) })
		if failed := len(w.set("r2").machines); failed != unavailable {
			t.Fatalf("%d failed, with %d allowed\n%s", failed, unavailable, strings.Join(w.log, "\n"))
		}
		// Back to the previous template: those that failed are first.
		w.current = w.set("r1")
		w.update = func(*simulatedMachine) string { return "" }
		w.run(func() { w.check(w.in.Replicas, w.in.Replicas-unavailable) })
		w.rested()
		w.rolled()
	})
}

// With trigger Manual nothing moves but what users ask for.
func TestInPlaceManualMovesOnlyWhatIsAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strategy := drawInPlace(t)
		strategy.InPlace.Trigger = v1alpha1.InPlaceManual
		w := drawRolled(t, strategy)
		asked := map[string]bool{}
		for _, m := range w.sets[0].machines {
			m.requested = rapid.Bool().Draw(t, m.name+" is asked for")
			asked[m.name] = m.requested
		}
		most, least := w.bounds()
		w.run(func() { w.check(most, least) })
		w.rested()
		for _, m := range w.set("r1").machines {
			if asked[m.name] {
				t.Fatalf("%s stayed\n%s", m.name, strings.Join(w.log, "\n"))
			}
		}
		if moved := len(w.set("r2").machines); moved != w.in.Replicas-len(w.set("r1").machines) {
			t.Fatalf("%d moved\n%s", moved, strings.Join(w.log, "\n"))
		}
	})
}

// Users change their mind, Machines fail, strategies are switched, at any moment. No budget can be promised while
// the budget itself changes, but there are never more Machines than any of them allowed, and it ends.
func TestEndsWhateverUsersDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t, drawStrategy(t))
		w.crashes = rapid.IntRange(0, 5).Draw(t, "crashes")
		w.update = func(*simulatedMachine) string {
			ends := []string{"", v1alpha1.ReasonInPlaceUnsupported}
			return ends[w.choose(2, "update ends")]
		}
		most, _ := w.bounds()
		changes := rapid.IntRange(0, 8).Draw(t, "changes")
		act := func() {
			if changes > 0 && rapid.IntRange(0, 5).Draw(t, "change now") == 0 {
				changes--
				w.disturb(t)
				now, _ := w.bounds()
				most = max(most, now)
			}
			w.check(most, 0)
		}
		w.run(act)
		w.in.Paused = false
		w.run(func() { w.check(most, 0) })
		w.rested()
		if w.in.Strategy.Type != v1alpha1.OnDelete {
			w.rolled()
		}
	})
}

// disturb does one thing that a user may do, or that may happen to a Machine.
func (w *world) disturb(t *rapid.T) {
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0:
		w.in.Replicas = rapid.IntRange(0, 12).Draw(t, "replicas")
		w.note("scaled to %d", w.in.Replicas)
	case 1:
		w.current = nil
		if len(w.sets) > 0 && rapid.Bool().Draw(t, "old template") {
			w.current = rapid.SampledFrom(w.sets).Draw(t, "template")
		}
		w.pending = nil // The controller acts on no other generation than the one that it decided on.
		w.note("template changed")
	case 2:
		w.in.Strategy = drawStrategy(t)
		w.note("strategy is %s", w.in.Strategy.Type)
	case 3:
		w.in.Paused = !w.in.Paused
		w.note("paused: %t", w.in.Paused)
	default:
		for _, s := range w.sets {
			for _, m := range s.machines {
				if w.choose(3, "fails") == 0 {
					m.ready = false
				}
			}
		}
		w.note("machines fail")
	}
}
