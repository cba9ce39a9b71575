// Package plan decides what to do for one MachineSet. It is pure: what counts goes in, a Plan comes out.
package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// AdoptionSlack is how many Machines more than replicas a set may own by adopting. Further Machines of the
// selector are adopted as owned ones go, so that a selector that matches too much cannot flood a set.
const AdoptionSlack = 2

// Machine is what counts of one Machine.
type Machine struct {
	Name    string
	UID     types.UID
	Created time.Time
	// Owned: this set controls it. Orphan: nobody does.
	Owned, Orphan bool
	// Matches: the set's selector matches its labels.
	Matches bool
	// Deleting: it carries a deletionTimestamp.
	Deleting bool
	// Marked: a user or cluster-autoscaler wants this one to go first.
	Marked bool
	Failed bool
	Ready  bool
}

// Input is all that a decision rests on.
type Input struct {
	// Replicas wanted.
	Replicas int
	// Machines of the set's namespace that it owns or could own.
	Machines []Machine
	// Frozen: nothing may be done.
	Frozen bool
	// Deleting: the set itself is being deleted; the garbage collector does the rest.
	Deleting bool
	// Outstanding is the number of creations and deletions of this set that Machines does not show yet.
	Outstanding int
}

// Victim is a Machine to delete, and why this one.
type Victim struct {
	Machine
	Why string
}

// Plan is what to do. At most one of Create and Delete is not empty.
type Plan struct {
	Create  int
	Delete  []Victim
	Adopt   []Machine
	Release []Machine
	// Why says in a few words why nothing, or what, is done.
	Why string
}

// Empty tells whether there is nothing to do.
func (p Plan) Empty() bool {
	return p.Create == 0 && len(p.Delete) == 0 && len(p.Adopt) == 0 && len(p.Release) == 0
}

// Decide plans for one MachineSet.
//
// Machines that are being deleted count until they are gone: a set never has more Machines than replicas
// because a deletion is slow.
func Decide(in Input) Plan {
	switch {
	case in.Deleting:
		return Plan{Why: "the set is being deleted"}
	case in.Frozen:
		return Plan{Why: "frozen"}
	case in.Outstanding > 0:
		return Plan{Why: fmt.Sprintf("%d creations or deletions are not visible yet", in.Outstanding)}
	}
	var p Plan
	owned := 0
	var active []Machine
	for _, machine := range in.Machines {
		switch {
		case !machine.Owned:
		case !machine.Matches && !machine.Deleting:
			p.Release = append(p.Release, machine)
		default:
			owned++
			if !machine.Deleting {
				active = append(active, machine)
			}
		}
	}
	p.Adopt = adoptable(in.Machines, in.Replicas+AdoptionSlack-owned)
	owned += len(p.Adopt)
	active = append(active, p.Adopt...)
	if owned < in.Replicas {
		p.Create = in.Replicas - owned
	}
	p.Delete = victims(active, len(active)-in.Replicas)
	p.Why = fmt.Sprintf("%d of %d machines exist, %d of them being deleted", owned, in.Replicas, owned-len(active))
	return p
}

// adoptable returns at most room orphans that the selector matches, oldest first.
func adoptable(machines []Machine, room int) []Machine {
	var orphans []Machine
	for _, machine := range machines {
		if machine.Orphan && machine.Matches && !machine.Deleting {
			orphans = append(orphans, machine)
		}
	}
	slices.SortFunc(orphans, oldestFirst)
	return orphans[:min(len(orphans), max(room, 0))]
}
