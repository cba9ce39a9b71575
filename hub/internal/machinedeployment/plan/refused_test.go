package plan

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A template of which the agent would refuse each Machine costs none of those that there are, with any strategy, and
// gets none, whatever is scaled and lost meanwhile. When it is no longer refused, it rolls out.
func TestRefusedTemplateTakesNothingAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawRolled(t, drawStrategy(t))
		w.crashes = rapid.IntRange(0, 5).Draw(t, "crashes")
		w.in.Refused = true
		before := w.names()
		w.run(func() {
			if names := w.names(); !slices.Equal(names, before) {
				t.Fatalf("the machines are %v, not %v\n%s", names, before, strings.Join(w.log, "\n"))
			}
		})
		old, changes := w.sets[0], rapid.IntRange(0, 4).Draw(t, "changes")
		w.run(func() {
			if w.current != nil && w.current.replicas+len(w.current.machines) > 0 {
				t.Fatalf("the new set gets machines\n%s", strings.Join(w.log, "\n"))
			}
			if changes > 0 && rapid.Bool().Draw(t, "change now") {
				changes--
				w.in.Replicas = rapid.IntRange(0, 12).Draw(t, "replicas")
				for _, m := range old.machines {
					m.deleting = m.deleting || rapid.IntRange(0, 3).Draw(t, "lost") == 0
				}
			}
		})
		if len(old.machines) != w.in.Replicas {
			t.Fatalf("ended with %d machines for %d replicas\n%s", len(old.machines), w.in.Replicas, strings.Join(w.log, "\n"))
		}
		w.in.Refused = false
		most, least := w.bounds()
		w.run(func() { w.check(most, least) })
		w.rested()
		if w.in.Strategy.Type != onDelete.Type {
			w.rolled()
		}
	})
}

// From any state, amid a rollout for instance, no set grows of which the agent would refuse more Machines, and the
// budget holds.
func TestRefusedSetsNeverGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t, drawStrategy(t))
		w.crashes = rapid.IntRange(0, 5).Draw(t, "crashes")
		w.in.Refused, w.in.Paused = rapid.IntRange(0, 3).Draw(t, "refused") > 0, rapid.IntRange(0, 5).Draw(t, "paused") == 0
		start := map[string]int{}
		for _, s := range w.sets {
			if s.refused = s != w.current && rapid.IntRange(0, 3).Draw(t, s.name+" is refused") == 0; s.refused || s == w.current && w.in.Refused {
				start[s.name] = max(s.replicas, len(s.machines))
			}
		}
		most, least := w.bounds()
		w.run(func() {
			w.check(most, least)
			for _, s := range w.sets {
				if limit, refused := start[s.name]; refused && s.replicas > limit {
					t.Fatalf("%s grows\n%s", s.name, strings.Join(w.log, "\n"))
				}
			}
		})
	})
}
