// Package plan decides what to do for one MachineSet. It is pure: what counts goes in, a Plan comes out.
package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// AdoptionSlack is how many Machines more than replicas a set may own by adopting those that a set of its name made. Further ones
// are adopted as owned ones go. Machines that match by their labels alone are adopted up to replicas, because
// the set would delete any beyond.
const AdoptionSlack = 2

// turnRecheck is how soon a set looks again while others of its deployment replace Machines, if no event wakes it.
const turnRecheck = time.Minute

// Machine is what counts of one Machine.
type Machine struct {
	Name    string
	UID     types.UID
	Created time.Time
	// ResourceVersion is the one at which all of this was read. A deletion carries it.
	ResourceVersion string
	// Owned: this set controls it. Orphan: no owner does, and no other set made it. Named: a set of this name made it.
	Owned, Orphan, Named bool
	// Matches: the set's selector matches its labels.
	Matches bool
	// Deleting: it carries a deletionTimestamp.
	Deleting bool
	// Marked: a user or cluster-autoscaler wants this one to go first; since MarkedAt, and the hub has been able
	// to act on it since MarkSeen.
	Marked             bool
	MarkedAt, MarkSeen time.Time
	// Priority is its deletion priority; lower ones go first.
	Priority int
	// Failed: it has a terminal error. Replaceable: one that another Machine may not have.
	Failed, Replaceable bool
	// Reason of the terminal error.
	Reason string
	// Unhealthy: it has failed, or it was up and is known not to be well.
	Unhealthy bool
	// Ready, and Available: Ready long enough.
	Ready, Available bool
	// Remediated: it is deleted to be replaced. Replacement: it was made for one of those, and has not come up.
	Remediated, Replacement bool
	// Undecodable: it exists, and nothing more is known of it. It is never chosen for anything.
	Undecodable bool
	// Outdated: it lacks a change of the template that needs no replacement.
	Outdated bool
}

// Input is all that a decision rests on.
type Input struct {
	Now time.Time
	// Replicas wanted.
	Replicas int
	// Machines of the set's namespace that it owns or could own.
	Machines []Machine
	// Frozen: nothing may be done.
	Frozen bool
	// Transferring: Machines are being moved from set to set.
	Transferring bool
	// Invalid says why no Machine that the set makes could be its own; empty if there is no such reason.
	Invalid string
	// Overlap says for which other object the set waits, because they select each other's Machines; empty if for none.
	Overlap string
	// Deleting: the set itself is being deleted; the garbage collector does the rest.
	Deleting bool
	// Outstanding is the number of creations and deletions of this set that Machines does not show yet.
	Outstanding int
	// MostOwned bounds the Machines that the set may own by adopting; 0 is no bound beside AdoptionSlack.
	MostOwned int
	// Policy orders equally good victims.
	Policy v1alpha1.DeletePolicy
	// Remediation bounds the replacement of failed Machines; there is none unless the agent is Connected.
	Remediation v1alpha1.Remediation
	Connected   bool
	// Elsewhere is how many Machines the other sets of the deployment have in replacement; MaxInFlight is for all.
	Elsewhere int
	// NoCreation says why nothing may be created now; empty if it may. MostCreations bounds it; 0 is no bound.
	NoCreation    string
	MostCreations int
	// LeftToNew: the set of the deployment's current template makes what this one lacks.
	LeftToNew bool
	// Room is how many Machines more all sets of the deployment together may make; nil is no bound.
	Room *int
	// NoUpdate: the API server has just refused to update a Machine to the template, so no update is planned now.
	NoUpdate bool
}

// Victim is a Machine to delete, and why this one.
type Victim struct {
	Machine
	Why string
}

// Plan is what to do. At most one of Create, Delete and Replace is not empty.
type Plan struct {
	Create  int
	Delete  []Victim
	Adopt   []Machine
	Release []Machine
	// Replace are failed Machines to delete so that others are made for them.
	Replace []Victim
	// Unmark are Machines whose mark no scale-down has followed.
	Unmark []Machine
	// Update are Machines to bring up to date with the template.
	Update []Machine
	// Why says in a few words why nothing, or what, is done.
	Why string
	// After is the time until the plan may change without any news; 0 if it does not.
	After time.Duration
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool {
	return p.Create == 0 && len(p.Delete) == 0 && len(p.Adopt) == 0 && len(p.Release) == 0 &&
		len(p.Replace) == 0 && len(p.Unmark) == 0 && len(p.Update) == 0
}

// OnlyScales reports whether Machines are made or deleted for the number of replicas, and nothing else is done.
func (p Plan) OnlyScales() bool {
	rest := p
	rest.Create, rest.Delete = 0, nil
	return rest.Empty() && !p.Empty()
}

// Scales reports whether both only make or delete Machines for the number of replicas: as many, and the same ones.
func (p Plan) Scales(other Plan) bool {
	return p.OnlyScales() && other.OnlyScales() && p.Create == other.Create &&
		slices.EqualFunc(p.Delete, other.Delete, func(a, b Victim) bool { return a.UID == b.UID })
}

// Decide plans for one MachineSet.
//
// Machines that are being deleted count until they are gone: a set never has more Machines than replicas
// because a deletion is slow. Machines that the set owns count although the selector does not match them any
// longer: they are released first, and replaced only then.
func Decide(in Input) Plan {
	if why := in.nothingBecause(); why != "" {
		return Plan{Why: why}
	}
	var p Plan
	owned := 0
	var active []Machine
	for _, machine := range in.Machines {
		if !machine.Owned {
			continue
		}
		owned++
		switch {
		case machine.Undecodable:
		case !machine.Deleting && !machine.Matches:
			p.Release = append(p.Release, machine)
		case !machine.Deleting:
			active = append(active, machine)
		}
		if machine.Outdated && machine.Matches && !in.NoUpdate {
			p.Update = append(p.Update, machine)
		}
	}
	most := in.Replicas + AdoptionSlack
	if in.MostOwned > 0 {
		most = min(most, in.MostOwned)
	}
	p.Adopt = adoptableOrphans(in.Machines, true, most-owned)
	p.Adopt = append(p.Adopt, adoptableOrphans(in.Machines, false, min(most, in.Replicas)-owned-len(p.Adopt))...)
	owned += len(p.Adopt)
	active = append(active, p.Adopt...)
	p.Why = fmt.Sprintf("%d of %d machines exist, %d of them being deleted", owned, in.Replicas, owned-len(active)-len(p.Release))
	switch {
	case len(active) > in.Replicas:
		p.Delete = pickVictims(in, active, len(active)-in.Replicas)
	case owned < in.Replicas:
		p = p.planCreations(in, in.Replicas-owned)
	default:
		p.Replace = replaceableMachines(in, active)
	}
	p.Unmark, p.After = staleMarks(in, active, len(active)-in.Replicas)
	p.After = untilTurn(in, p.After)
	return p
}

// nothingBecause says why nothing may be planned now. It is empty if something may.
func (in Input) nothingBecause() string {
	switch {
	case in.Deleting:
		return "the set is being deleted"
	case in.Frozen:
		return "frozen"
	case in.Transferring:
		return "machines are being moved between sets"
	case in.Invalid != "":
		return in.Invalid
	case in.Overlap != "":
		return in.Overlap
	case in.Outstanding > 0:
		return fmt.Sprintf("%d creations or deletions are not visible yet", in.Outstanding)
	}
	return ""
}

// untilTurn is after, or sooner if it may be the set's turn before that, or the deployment may want something else.
func untilTurn(in Input, after time.Duration) time.Duration {
	if (in.Elsewhere > 0 || in.LeftToNew) && (after == 0 || after > turnRecheck) {
		return turnRecheck
	}
	return after
}

// planCreations plans for missing Machines, as far as they may be created now.
func (p Plan) planCreations(in Input, missing int) Plan {
	if in.LeftToNew {
		p.Why += ": the deployment creates the others with its current template"
		return p
	}
	if in.NoCreation != "" {
		p.Why += ": " + in.NoCreation
		return p
	}
	p.Create = missing
	if in.MostCreations > 0 {
		p.Create = min(p.Create, in.MostCreations)
	}
	if in.Room != nil && *in.Room < p.Create {
		p.Create = max(*in.Room, 0)
		p.Why += fmt.Sprintf(": the deployment has room for %d more", p.Create)
	}
	return p
}

// adoptableOrphans returns at most room orphans that the selector matches, oldest first: those that a set of this name made, or the others.
func adoptableOrphans(machines []Machine, named bool, room int) []Machine {
	var orphans []Machine
	for _, machine := range machines {
		if machine.Orphan && machine.Named == named && machine.Matches && !machine.Deleting && !machine.Undecodable {
			orphans = append(orphans, machine)
		}
	}
	slices.SortFunc(orphans, oldestFirst)
	return orphans[:min(len(orphans), max(room, 0))]
}
