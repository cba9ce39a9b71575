package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// set makes a MachineSet whose Machines are all there: active of them, of which available.
func set(name string, replicas, active, available int) Set {
	return Set{Name: name, Created: start, Replicas: replicas, Actual: active, Active: active, Available: available}
}

func (s Set) deleting(n int) Set {
	s.Actual += n
	return s
}

func (s Set) marked(n int) Set {
	s.MarkedAvailable = n
	return s
}

func rolling(surge, unavailable string) v1alpha1.MachineDeploymentStrategy {
	a, b := intstr.Parse(surge), intstr.Parse(unavailable)
	return v1alpha1.MachineDeploymentStrategy{
		Type:          v1alpha1.RollingUpdate,
		RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: &a, MaxUnavailable: &b},
	}
}

var (
	recreate = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate}
	onDelete = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete}
)

// describe writes a plan as "create 2, old 3→2".
func describe(p Plan) string {
	var parts []string
	if p.CreateNew {
		parts = append(parts, fmt.Sprintf("create %d", p.NewReplicas))
	}
	for _, scale := range p.Scale {
		parts = append(parts, fmt.Sprintf("%s %d→%d", scale.Name, scale.From, scale.To))
	}
	return strings.Join(parts, ", ")
}

func TestDecide(t *testing.T) {
	current := func(replicas, active, available int) *Set {
		s := set("new", replicas, active, available)
		return &s
	}
	tests := map[string]struct {
		in   Input
		want string
	}{
		"creates the first set with all replicas": {
			Input{Replicas: 3, Strategy: rolling("1", "0")}, "create 3",
		},
		"scales the only set at once": {
			Input{Replicas: 9, Strategy: rolling("1", "0"), New: current(3, 3, 3)}, "new 3→9",
		},
		"scales the only set down, available or not": {
			Input{Replicas: 0, Strategy: rolling("1", "0"), New: current(3, 3, 3)}, "new 3→0",
		},
		"starts a rollout with its surge": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), Old: []Set{set("old", 3, 3, 3)}}, "create 1",
		},
		"starts a rollout with what may be unavailable": {
			Input{Replicas: 3, Strategy: rolling("0", "1"), Old: []Set{set("old", 3, 3, 3)}}, "create 0, old 3→2",
		},
		"takes an old machine when a new one is available": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 3)}}, "old 3→2",
		},
		"takes no old machine before a new one is available": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 0), Old: []Set{set("old", 3, 3, 3)}}, "",
		},
		"counts machines that are still being deleted": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 2, 2, 2).deleting(1)}}, "",
		},
		"goes on when they are gone": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 2, 2, 2)}}, "new 1→2",
		},
		"takes an unavailable old machine rather than wait for it": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 2)}}, "old 3→2",
		},
		"gets past an old set of which nothing is available": {
			Input{Replicas: 3, Strategy: rolling("0", "1"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 0)}}, "old 3→2",
		},
		"keeps unavailable old machines while the new ones do not come up": {
			Input{Replicas: 10, Strategy: rolling("2", "2"), New: current(4, 4, 0), Old: []Set{set("old", 8, 8, 3)}}, "",
		},
		"does not count on a marked machine": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 0), Old: []Set{set("old", 3, 3, 3).marked(1)}}, "",
		},
		"pays for a marked machine although an unavailable one could go": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 2).marked(1)}}, "",
		},
		"clamps a set with more machines than replicas": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(3, 3, 3), Old: []Set{set("old", 0, 2, 2)}}, "",
		},
		"takes both bounds of 0 for one unavailable": {
			Input{Replicas: 3, Strategy: rolling("0", "10%"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "old 3→2",
		},
		"rounds surge up and unavailable down": {
			Input{Replicas: 10, Strategy: rolling("25%", "25%"), Old: []Set{set("old", 10, 10, 10)}}, "create 3, old 10→8",
		},
		"grows the new set only, in a rollout that is scaled up": {
			Input{Replicas: 20, Strategy: rolling("1", "0"), New: current(5, 5, 5), Old: []Set{set("old", 6, 6, 6)}}, "new 5→15",
		},
		"never takes all sets to 0": {
			Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(3, 3, 3), Old: []Set{set("old", 1, 1, 1)}}, "old 1→0",
		},
		"shrinks a rollout that is scaled down": {
			Input{Replicas: 5, Strategy: rolling("1", "0"), New: current(10, 10, 3), Old: []Set{set("old", 11, 11, 11)}},
			"old 11→2, new 10→4",
		},
		"empties several old sets, oldest first": {
			Input{Replicas: 2, Strategy: rolling("1", "0"), New: current(2, 2, 2), Old: []Set{
				{Name: "b", Created: start.Add(1), Replicas: 1, Actual: 1, Active: 1, Available: 1}, set("a", 1, 1, 1),
			}},
			"a 1→0, b 1→0",
		},
		"recreates: empties first": {
			Input{Replicas: 3, Strategy: recreate, Old: []Set{set("old", 3, 3, 3)}}, "create 0, old 3→0",
		},
		"recreates: waits for the last machine": {
			Input{Replicas: 3, Strategy: recreate, New: current(0, 0, 0), Old: []Set{set("old", 0, 0, 0).deleting(1)}}, "",
		},
		"recreates: then fills": {
			Input{Replicas: 3, Strategy: recreate, New: current(0, 0, 0), Old: []Set{set("old", 0, 0, 0)}}, "new 0→3",
		},
		"on delete: replaces nothing by itself": {
			Input{Replicas: 3, Strategy: onDelete, Old: []Set{set("old", 3, 3, 3)}}, "create 0",
		},
		"on delete: takes a deleted machine off the old set": {
			Input{Replicas: 3, Strategy: onDelete, New: current(0, 0, 0), Old: []Set{set("old", 3, 2, 2).deleting(1)}}, "old 3→2",
		},
		"on delete: replaces it when it is gone": {
			Input{Replicas: 3, Strategy: onDelete, New: current(0, 0, 0), Old: []Set{set("old", 2, 2, 2)}}, "new 0→1",
		},
		"on delete: scales down at the old set": {
			Input{Replicas: 1, Strategy: onDelete, New: current(1, 1, 1), Old: []Set{set("old", 2, 2, 2)}}, "old 2→0",
		},
		"paused: starts no rollout": {
			Input{Replicas: 3, Paused: true, Strategy: rolling("1", "0"), Old: []Set{set("old", 3, 3, 3)}}, "",
		},
		"paused: goes on with no rollout": {
			Input{Replicas: 3, Paused: true, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 3)}}, "",
		},
		"paused: scales the only set": {
			Input{Replicas: 9, Paused: true, Strategy: rolling("1", "0"), Old: []Set{set("old", 3, 3, 3)}}, "old 3→9",
		},
		"paused: scales up from nothing with the latest template": {
			Input{Replicas: 2, Paused: true, Strategy: rolling("1", "0"), Old: []Set{set("old", 0, 0, 0)}}, "old 0→2",
		},
		"paused: grows in proportion": {
			Input{Replicas: 20, Paused: true, Strategy: rolling("1", "0"), New: current(2, 2, 2), Old: []Set{set("old", 8, 8, 8)}},
			"old 8→16, new 2→4",
		},
		"paused: shrinks where it costs least": {
			Input{Replicas: 5, Paused: true, Strategy: rolling("1", "0"), New: current(5, 5, 0), Old: []Set{set("old", 6, 6, 6)}},
			"new 5→0",
		},
		"paused: takes the marked machine although it is available": {
			Input{Replicas: 2, Paused: true, Strategy: rolling("1", "0"), New: current(2, 2, 1), Old: []Set{set("old", 2, 2, 1).marked(1)}},
			"new 2→1",
		},
		"frozen: does nothing":  {Input{Replicas: 3, Frozen: true, Strategy: rolling("1", "0"), New: current(9, 9, 9)}, ""},
		"deleted: does nothing": {Input{Replicas: 3, Deleting: true, Strategy: rolling("1", "0")}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := Decide(test.in)
			if got := describe(p); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if p.Why == "" {
				t.Error("the plan says not why")
			}
		})
	}
}

func TestBounds(t *testing.T) {
	tests := []struct {
		strategy           v1alpha1.MachineDeploymentStrategy
		replicas           int
		surge, unavailable int
	}{
		{v1alpha1.MachineDeploymentStrategy{}, 5, 1, 0},
		{v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{}}, 5, 1, 0},
		{rolling("0", "30%"), 3, 0, 1},
		{rolling("0", "50%"), 3, 0, 1},
		{rolling("34%", "34%"), 3, 2, 1},
		{rolling("2", "10"), 3, 2, 3},
		{rolling("0", "50%"), 0, 0, 0},
		{recreate, 4, 0, 4},
		{onDelete, 4, 0, 4},
	}
	for _, test := range tests {
		if surge, unavailable := Bounds(test.strategy, test.replicas); surge != test.surge || unavailable != test.unavailable {
			t.Errorf("%+v of %d: surge %d, unavailable %d; want %d, %d",
				test.strategy, test.replicas, surge, unavailable, test.surge, test.unavailable)
		}
	}
}
