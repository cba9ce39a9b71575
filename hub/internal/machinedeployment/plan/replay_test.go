package plan

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

// seeds are the orders in which each case is played.
const seeds = 3

// TestReplay plays known failures of other machine controllers, step by step, in the order that a seed gives. The
// golden files show what each controller does when; budgets are checked at every step.
func TestReplay(t *testing.T) {
	cases := map[string]func(w *world){
		// Edge case: CAPI #340, PR #3434, MCM PR #627: slow deletions break the surge. Also: TestBudgetHoldsAtEachStepAndTheRolloutEnds.
		"CAPI #340, PR #3434; MCM PR #627: deleting machines count": func(w *world) {
			w.in.Replicas, w.in.Strategy = 4, rolling("1", "0")
			w.filled(4)
			w.slow = true
		},
		// Edge case: CAPI PR #13020, MCM PR #733: waiting for an old machine that never becomes available. Also: test/integration/lifecycle "should finish although an old Machine is not available and none may be missing (CAPI PR #13020, MCM PR #733)".
		"CAPI PR #13020, MCM PR #733: a deadlock is broken": func(w *world) {
			w.in.Replicas, w.in.Strategy = 3, rolling("1", "0")
			old := w.filled(3)
			old.machines[0].ready, old.machines[0].broken = false, true
			old.machines[1].marked = true
		},
		// Edge case: maxSurge and maxUnavailable both round to 0.
		"both bounds round to 0": func(w *world) {
			w.in.Replicas, w.in.Strategy = 3, rolling("0%", "10%")
			w.filled(3)
		},
		// Edge case: CAPI #12551, #13649: several sets for one template. Also: hub/internal/machinedeployment TestStaleCachesMakeOneSetPerTemplate, TestStaleCachesKeepToTheBudget.
		"CAPI #12551, #13649: a set's controller is behind": func(w *world) {
			w.in.Replicas, w.in.Strategy = 3, rolling("2", "1")
			w.filled(3).generation = 1
		},
		// Edge case: MCM #816: template change and scale-up in one update.
		"MCM #816: template change and scale-up in one update with two active sets": func(w *world) {
			w.in.Replicas, w.in.Strategy = 9, rolling("1", "1")
			w.filled(3).sizedFor = new(6)
			w.filled(3).sizedFor = new(6)
			w.peak = map[string]int{"r1": 4, "r2": 5} // What serves now gets all of the 3 that are added.
		},
		"scaled up between two steps: both sets get their share": func(w *world) {
			w.in.Replicas, w.in.Strategy = 20, rolling("2", "0")
			w.filled(6).sizedFor = new(10)
			w.current = w.filled(4)
			w.current.sizedFor, w.current.replicas, w.current.generation = new(10), 6, 1
			w.peak = map[string]int{"r1": 10}
		},
		"scaled down amid a rollout: the marked machine goes": func(w *world) {
			w.in.Replicas, w.in.Strategy = 9, rolling("2", "0")
			w.filled(6).sizedFor = new(10)
			w.current = w.filled(6)
			w.current.sizedFor, w.current.machines[3].marked = new(10), true
			w.goes = []string{w.current.machines[3].name}
		},
		// Edge case: A paused rollout at 0 kept Machines. Also: TestBudgetHoldsAtEachStepAndTheRolloutEnds.
		"paused and scaled to 0: no machine stays": func(w *world) {
			w.in.Strategy, w.in.Paused = rolling("3", "0"), true
			w.filled(5).sizedFor = new(5)
			w.filled(2).sizedFor = new(5)
			w.current = w.filled(1)
			w.current.sizedFor = new(5)
		},
		"on delete: the set looks before the deployment": func(w *world) {
			w.in.Replicas, w.in.Strategy = 3, onDelete
			w.filled(3).machines[0].deleting = true
			w.current = w.add(0)
			w.peak = map[string]int{"r2": 1}
		},
		// Edge case: MCM #802: a set at its limit takes all to 0.
		"MCM #802: new set at its limit while scaling": func(w *world) {
			w.in.Replicas, w.in.Strategy = 3, rolling("1", "0")
			w.filled(3).sizedFor = new(6)
			w.current = w.filled(4)
			w.current.sizedFor = new(6)
		},
		// Edge case: CAPI #8987: more available than replicas.
		"CAPI #8987: more available than replicas on an old set": func(w *world) {
			w.in.Replicas, w.in.Strategy = 3, rolling("1", "0")
			w.filled(3).replicas = 2
		},
		"outscale #543: more machines than replicas and surge": func(w *world) {
			w.in.Replicas, w.in.Strategy = 2, rolling("1", "0")
			w.filled(9).replicas = 2
		},
		// Edge case: CAPI #3568: pause the rollout, keep healing. Also: test/integration/lifecycle "should replace a lost Machine by its own template while it is paused (CAPI #3568)".
		"CAPI #3568: a paused rollout scales and heals": func(w *world) {
			w.in.Replicas, w.in.Strategy, w.in.Paused = 6, rolling("1", "0"), true
			w.filled(2).machines[0].deleting = true
			w.current = w.filled(2)
		},
		// Edge case: CAPI #8392: rollback of fields that replace nothing. Also: test/integration/lifecycle "should go back in place, with the fields that replace nothing (CAPI #8392)".
		"CAPI #8392: rollback of an update in place": func(w *world) {
			w.in.Replicas, w.in.Strategy = 4, inPlace("1")
			first := w.filled(2)
			failed := w.filled(2)
			failed.machines[0].update = v1alpha1.ReasonUpdateFailed
			w.current = first
		},
		// Edge case: MCM #81–#88, #718, #346: only creation stops. Also: agent/internal/machine "MCM #718: should delete nothing, and after the thaw all of it".
		"MCM #718: frozen means that nothing is deleted either": func(w *world) {
			w.in.Replicas, w.in.Strategy, w.in.Frozen = 2, rolling("1", "0"), true
			w.filled(4)
		},
		// Edge case: MCM #1084: a terminating machine is picked again. Also: hub/internal/machineset/plan TestVictimsDoNotDependOnTheOrderOfTheList.
		"MCM #1084: what is terminating is not taken twice": func(w *world) {
			w.in.Replicas, w.in.Strategy = 2, rolling("1", "0")
			w.current = w.filled(4)
			w.current.machines[0].deleting = true
		},
		"in place with providers that cannot": func(w *world) {
			w.in.Replicas, w.in.Strategy = 3, inPlace("1")
			w.filled(3)
			w.update = func(m *simulatedMachine) string {
				if m.name == "r1-2" {
					return v1alpha1.ReasonInPlaceUnsupported
				}
				return ""
			}
		},
		"in place, interrupted": func(w *world) {
			w.in.Replicas, w.in.Strategy = 4, inPlace("2")
			w.filled(4)
			w.crashes = 4
		},
		"switched from rolling to in place": func(w *world) {
			w.in.Replicas, w.in.Strategy = 3, inPlace("1")
			w.filled(3)
			w.current = w.filled(1)
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for seed := range uint64(seeds) {
				fmt.Fprintf(&all, "seed %d\n%s\n", seed, play(t, prepare, seed))
			}
			compare(t, filepath.Join("testdata", fileName(name)), all.String())
		})
	}
}

func play(t *testing.T, prepare func(*world), seed uint64) string {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, seed))
	w := &world{
		choose: func(n int, _ string) int { return random.IntN(n) }, fatal: t.Fatalf,
		update: func(*simulatedMachine) string { return "" },
	}
	prepare(w)
	w.note("start: %d replicas", w.in.Replicas)
	most, least := w.bounds()
	peak := map[string]int{}
	w.run(func() {
		w.check(most, least)
		for _, s := range w.sets {
			peak[s.name] = max(peak[s.name], s.replicas)
		}
	})
	w.note("end")
	if !w.in.Frozen {
		w.rested()
	}
	if !w.in.Frozen && !w.in.Paused && w.in.Strategy.Type != v1alpha1.OnDelete {
		w.rolled()
	}
	for name, want := range w.peak {
		if peak[name] != want {
			t.Errorf("set %s had at most %d replicas, not %d\n%s", name, peak[name], want, strings.Join(w.log, "\n"))
		}
	}
	for _, name := range w.goes {
		if slices.Contains(w.names(), name) {
			t.Errorf("machine %s stayed\n%s", name, strings.Join(w.log, "\n"))
		}
	}
	return strings.Join(w.log, "\n") + "\n"
}

func fileName(name string) string {
	return strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-"), "-") + ".golden"
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; look at the difference, then write it again with go test -update\n%s", file, firstDifference(string(want), got))
	}
}

func firstDifference(want, got string) string {
	before, after := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(before), len(after)) {
		if before[i] != after[i] {
			return fmt.Sprintf("line %d\nwant: %s\ngot:  %s", i+1, before[i], after[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d", len(before), len(after))
}
