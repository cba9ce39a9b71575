package plan

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var decisions = map[string]struct {
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
	"continues when they are gone": {
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
	"takes an unavailable machine by its name when a scale-down would take a marked one": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 2).marked(1)}}, "remove old-0",
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
			set("b", 1, 1, 1).created(1), set("a", 1, 1, 1),
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
	"takes the marked machine of the new set when it is scaled down amid a rollout": {
		Input{Replicas: 9, Strategy: rolling("2", "0"), New: new(set("new", 6, 6, 6).marked(1).sizedFor(10)), Old: []Set{set("old", 6, 6, 6).sizedFor(10)}},
		"new 6→5",
	},
	"takes no marked machine when nothing was scaled down": {
		Input{Replicas: 10, Strategy: rolling("2", "0"), New: new(set("new", 6, 6, 0).marked(1).sizedFor(10)), Old: []Set{set("old", 6, 6, 6).sizedFor(10)}},
		"",
	},
	"paused: no surge stays with 0 replicas": {
		Input{Paused: true, Strategy: rolling("3", "0"), New: current(1, 1, 1), Old: []Set{set("a", 5, 5, 5), set("b", 2, 2, 2)}},
		"a 5→0, b 2→0, new 1→0",
	},
	"on delete: takes the place of a lost machine off the old set, marked or not": {
		Input{Replicas: 2, Strategy: onDelete, New: current(0, 0, 0), Old: []Set{set("old", 2, 1, 1).marked(1)}}, "old 2→1",
	},
	// Edge case: A lost place was kept forever.
	"in place: takes the place of a lost machine off the old set although the other one is marked": {
		Input{Replicas: 2, Strategy: inPlace("1"), New: current(0, 0, 0), Old: []Set{set("old", 2, 1, 1).marked(1)}}, "old 2→1",
	},
	"paused: starts no rollout": {
		Input{Replicas: 3, Paused: true, Strategy: rolling("1", "0"), Old: []Set{set("old", 3, 3, 3)}}, "",
	},
	"paused: continues with no rollout": {
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
	"refused: gives the template an empty set, and takes nothing away": {
		Input{Replicas: 3, Refused: true, Strategy: rolling("1", "1"), Old: []Set{set("old", 3, 3, 3)}}, "create 0",
	},
	"refused: makes nothing of a new deployment": {
		Input{Replicas: 3, Refused: true, Strategy: rolling("1", "0")}, "create 0",
	},
	"refused and paused: makes no set": {
		Input{Replicas: 3, Refused: true, Paused: true, Strategy: rolling("1", "0"), Old: []Set{set("old", 3, 3, 3)}}, "",
	},
	"refused: fills no new set": {
		Input{Replicas: 3, Refused: true, Strategy: rolling("1", "0"), New: current(0, 0, 0)}, "",
	},
	"refused: takes nothing away without surge": {
		Input{Replicas: 3, Refused: true, Strategy: rolling("0", "1"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "",
	},
	"refused: recreates nothing": {
		Input{Replicas: 3, Refused: true, Strategy: recreate, Old: []Set{set("old", 3, 3, 3)}}, "create 0",
	},
	"refused: on delete, leaves the place to the old set": {
		Input{Replicas: 3, Refused: true, Strategy: onDelete, New: current(0, 0, 0), Old: []Set{set("old", 3, 2, 2).deleting(1)}}, "",
	},
	"refused: moves nothing in place": {
		Input{Replicas: 3, Refused: true, Strategy: inPlace("1"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "",
	},
	"refused: replaces nothing that could not be updated in place": {
		Input{Replicas: 3, Refused: true, Strategy: inPlace("1"), New: updating(1, v1alpha1.ReasonInPlaceUnsupported), Old: []Set{set("old", 2, 2, 2)}}, "",
	},
	"refused: removes no machine to break a deadlock": {
		Input{Replicas: 3, Refused: true, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 2).marked(1)}}, "",
	},
	"refused: scales what there is": {
		Input{Replicas: 5, Refused: true, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 3)}}, "old 3→4",
	},
	"refused: scales up from nothing with the latest template that is not": {
		Input{Replicas: 2, Refused: true, Strategy: rolling("1", "0"), New: current(0, 0, 0), Old: []Set{set("old", 0, 0, 0), set("newer", 0, 0, 0).created(1).refused()}}, "old 0→2",
	},
	"refused: scales the only set down": {
		Input{Replicas: 1, Refused: true, Strategy: rolling("1", "0"), New: current(3, 3, 3)}, "new 3→1",
	},
	"refused: does not scale the only set up": {
		Input{Replicas: 5, Refused: true, Strategy: rolling("1", "0"), New: current(3, 3, 3)}, "",
	},
	"grows no old set that is refused when scaled up amid a rollout": {
		Input{Replicas: 20, Strategy: rolling("1", "0"), New: set("new", 5, 5, 5).sizedForPointer(11), Old: []Set{set("old", 6, 6, 6).sizedFor(11).refused()}},
		"new 5→15",
	},
	"counts unavailable machines that go first as no loss": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 2)}}, "old 3→2",
	},
	"counts an available machine of a low priority as the first to go": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 0), Old: []Set{set("old", 3, 3, 2).priority(1, 1)}}, "",
	},
	"counts on no machine that may be made just now with another priority": {
		Input{Replicas: 3, Strategy: rolling("0", "1"), New: current(0, 0, 0), Old: []Set{set("old", 3, 2, 2).priority(2, 1)}}, "",
	},
	"grows into no place that its controller may be filling": {
		Input{Replicas: 3, Strategy: rolling("0", "1"), New: current(0, 0, 0), Old: []Set{set("old", 3, 2, 2)}}, "old 3→2",
	},
	"waits for a set's controller": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 3).unseen()}}, "",
	},
	"counts on no machine of a set that shrinks": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 2, 3, 2)}}, "",
	},
	"saves no machine by growth that its set may be deleting just now": {
		Input{Replicas: 1, Strategy: rolling("2", "0"), New: current(0, 1, 1), Old: []Set{set("old", 1, 1, 1)}}, "new 0→1",
	},
	"counts a machine as lost that a shrinking set may have chosen": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 2, 2, 2), set("shrinking", 1, 2, 1).created(1)}},
		"shrinking 1→0",
	},
	"leaves all growth to the new set when only one other serves": {
		Input{Replicas: 6, Strategy: rolling("1", "0"), Old: []Set{set("old", 3, 3, 3).sizedFor(3)}}, "create 4",
	},
	"in place: moves nothing into a set that lacks machines": {
		Input{Replicas: 3, Strategy: inPlace("2"), New: current(1, 0, 0), Old: []Set{set("old", 2, 2, 2)}}, "",
	},
	"in place: counts updates under way among what may be unavailable": {
		Input{Replicas: 5, Strategy: inPlace("2"), New: updating(1, v1alpha1.ReasonAwaitingUpdate), Old: []Set{set("old", 4, 4, 0)}}, "move old-0",
	},
	"grows several sets in proportion when scaled up amid a rollout": {
		Input{Replicas: 20, Strategy: rolling("1", "0"), New: set("new", 5, 5, 5).sizedForPointer(11), Old: []Set{set("old", 6, 6, 6).sizedFor(11)}},
		"old 6→10, new 5→10",
	},
	"mistakes a rollout for no scaling": {
		Input{Replicas: 11, Strategy: rolling("0", "3"), New: set("new", 5, 5, 5).sizedForPointer(11), Old: []Set{set("old", 4, 4, 4).sizedFor(11)}},
		"old 4→3, new 5→7",
	},

	"in place: makes the new set empty": {
		Input{Replicas: 3, Strategy: inPlace("1"), Old: []Set{set("old", 3, 3, 3)}}, "create 0",
	},
	"in place: moves as many as may be unavailable": {
		Input{Replicas: 4, Strategy: inPlace("2"), New: current(0, 0, 0), Old: []Set{set("old", 4, 4, 4)}}, "move old-0, move old-1",
	},
	"in place: moves 1 if the percentage rounds to 0": {
		Input{Replicas: 4, Strategy: inPlace("10%"), New: current(0, 0, 0), Old: []Set{set("old", 4, 4, 4)}}, "move old-0",
	},
	"in place: waits for the update": {
		Input{Replicas: 3, Strategy: inPlace("1"), New: updating(1, v1alpha1.ReasonAwaitingUpdate), Old: []Set{set("old", 2, 2, 2)}}, "",
	},
	"in place: stops at a failed update": {
		Input{Replicas: 3, Strategy: inPlace("1"), New: updating(1, v1alpha1.ReasonUpdateFailed), Old: []Set{set("old", 2, 2, 2)}}, "",
	},
	"in place: replaces what cannot be updated in place": {
		Input{Replicas: 3, Strategy: inPlace("1"), New: updating(1, v1alpha1.ReasonInPlaceUnsupported), Old: []Set{set("old", 2, 2, 2)}}, "replace new-0",
	},
	"in place: replaces no node that serves while too few do": {
		Input{Replicas: 3, Strategy: inPlace("1"), New: updating(1, v1alpha1.ReasonInPlaceUnsupported), Old: []Set{set("old", 2, 2, 1)}}, "move old-0",
	},
	"in place: moves unavailable machines first, marked ones last": {
		Input{Replicas: 4, Strategy: inPlace("3"), New: current(0, 0, 0), Old: []Set{set("old", 4, 4, 3).marked(3).with(1, func(m *Machine) { m.Marked = false })}},
		"move old-0, move old-3, move old-1",
	},
	"in place: moves no more unavailable machines than its budget": {
		Input{Replicas: 5, Strategy: inPlace("2"), New: current(0, 0, 0), Old: []Set{set("old", 5, 5, 0)}}, "move old-0, move old-1",
	},
	"in place: moves nothing from a set that shrinks": {
		Input{Replicas: 3, Strategy: inPlace("1"), New: current(0, 0, 0), Old: []Set{set("old", 3, 4, 4)}}, "",
	},
	"in place: gives the place of a lost machine to the new set": {
		Input{Replicas: 3, Strategy: inPlace("1"), New: current(0, 0, 0), Old: []Set{set("old", 3, 2, 2).deleting(1)}}, "old 3→2",
	},
	"in place: fills it when the machine is gone": {
		Input{Replicas: 3, Strategy: inPlace("1"), New: current(0, 0, 0), Old: []Set{set("old", 2, 2, 2)}}, "new 0→1",
	},
	"in place: finishes a transfer before all else": {
		Input{Replicas: 9, Strategy: inPlace("1"), New: lockedNew(0, 1, 0), Old: []Set{set("old", 3, 2, 2).locked()}}, "unlock old 3→2, unlock new 0→1",
	},
	"in place: finishes a transfer while paused": {
		Input{Replicas: 3, Paused: true, Strategy: recreate, New: lockedNew(0, 1, 0), Old: []Set{set("old", 3, 2, 2).locked()}}, "unlock old 3→2, unlock new 0→1",
	},
	"in place: finishes no transfer while frozen": {
		Input{Replicas: 3, Frozen: true, Strategy: inPlace("1"), New: lockedNew(0, 1, 0), Old: []Set{set("old", 3, 2, 2).locked()}}, "",
	},
	"in place: moves nothing while paused": {
		Input{Replicas: 3, Paused: true, Strategy: inPlace("1"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "",
	},
	"in place: takes the surge of a rolling update back": {
		Input{Replicas: 3, Strategy: inPlace("1"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 3)}}, "old 3→2",
	},
	"in place, manual: moves nothing by itself": {
		Input{Replicas: 3, Strategy: manual, New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "",
	},
	"in place, manual: moves what is asked for, within the budget": {
		Input{Replicas: 3, Strategy: manual, New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3).requested(2)}}, "move old-1",
	},
	"switched to a rolling update: replaces what could not be updated in place": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: updating(1, v1alpha1.ReasonInPlaceUnsupported), Old: []Set{set("old", 2, 2, 2)}}, "new 1→2",
	},
	"on delete: leaves also that to the user": {
		Input{Replicas: 3, Strategy: onDelete, New: updating(1, v1alpha1.ReasonInPlaceUnsupported), Old: []Set{set("old", 2, 2, 2)}}, "",
	},
	"breaks no deadlock while something is under way": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 3, 3, 2).marked(1), set("gone", 0, 0, 0).deleting(1)}}, "",
	},
	"breaks no deadlock while the new set is not available": {
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 0), Old: []Set{set("old", 3, 3, 2).marked(1)}}, "",
	},
	"frozen: does nothing":  {Input{Replicas: 3, Frozen: true, Strategy: rolling("1", "0"), New: current(9, 9, 9)}, ""},
	"deleted: does nothing": {Input{Replicas: 3, Deleting: true, Strategy: rolling("1", "0")}, ""},
}

func TestDecide(t *testing.T) {
	for name, test := range decisions {
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
		{v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace}, 5, 0, 1},
		{inPlace("40%"), 5, 0, 2},
		{inPlace("10%"), 5, 0, 1},
		{inPlace("9"), 5, 0, 5},
		{recreate, 4, 0, 4},
		{onDelete, 4, 0, 4},
	}
	for _, test := range tests {
		if surge, unavailable := test.strategy.Bounds(test.replicas); surge != test.surge || unavailable != test.unavailable {
			t.Errorf("%+v of %d: surge %d, unavailable %d; want %d, %d",
				test.strategy, test.replicas, surge, unavailable, test.surge, test.unavailable)
		}
	}
}
