// Package plan decides how a MachineDeployment's Machines are spread over its MachineSets, and which of them are
// updated in place. It is pure: what counts goes in, a Plan comes out.
//
// It relies on two properties of the MachineSet controller: a set's Machines count until they are gone, and a
// scale-down takes marked Machines first, then those of the lowest deletion priority, and of equal ones those
// that are not available.
package plan

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Machine is what counts of one Machine.
type Machine struct {
	Name    string
	UID     types.UID
	Created time.Time
	// ResourceVersion is the one at which all of this was read. A deletion carries it.
	ResourceVersion string
	Deleting        bool
	// Ready, and Available: Ready long enough, and not amid an update.
	Ready, Available bool
	// Marked and Priority say when its turn is in a scale-down.
	Marked   bool
	Priority int
	// Update is where an update in place stands that is not over: ReasonAwaitingUpdate, ReasonInPlaceUnsupported
	// or ReasonUpdateFailed. Empty otherwise.
	Update string
	// Requested: a user wants this one to be updated in place.
	Requested bool
}

// Set is what counts of one MachineSet.
type Set struct {
	Name    string
	Created time.Time
	// Replicas is the set's spec.replicas.
	Replicas int
	// Unseen: the set's controller has not reported on the set's current spec, and may still be making or deleting
	// Machines for an earlier one.
	Unseen bool
	// Priority is the deletion priority of Machines that it makes.
	Priority int
	// SizedFor is the replicas of the deployment for which the set was scaled last; nil if that is not known.
	SizedFor *int
	// Locked: Machines are being moved out of it or into it.
	Locked bool
	// Refused: the agent would refuse more Machines of its template. Of the new set, Input says so.
	Refused bool
	// Machines that it owns, those being deleted too.
	Machines []Machine
}

// Input is all that a decision rests on.
type Input struct {
	Replicas int
	Strategy v1alpha1.MachineDeploymentStrategy
	// Paused: no Machine is replaced or updated for its template's sake; scaling continues.
	Paused bool
	// Refused: the agent would refuse Machines of the current template. Until it would not, nothing is replaced or
	// updated for the template's sake, and none is made; scaling continues with what there is.
	Refused bool
	// Frozen: nothing may be done. Deleting: the deployment itself is being deleted.
	Frozen, Deleting bool
	// New is the set of the current template; nil if there is none yet.
	New *Set
	// Old are the other sets.
	Old []Set
	// Peers are the other deployments that share the surge, in any order.
	Peers []Peer
}

// isHalted reports whether the rollout has to stand still, while healing and scaling continue.
func (in Input) isHalted() bool { return in.Paused || in.Refused }

// leavesToNew reports whether the controllers of old sets make no Machines, because the new set makes what they lack.
func (in Input) leavesToNew() bool { return !in.isHalted() && LeavesToNew(in.Strategy) }

// LeavesToNew reports whether a MachineSet of an older template leaves it to the set of the current one to make what it
// lacks, while the rollout is not halted: with these strategies a Machine that is lost, or that a user deletes, is made
// again with the current template.
func LeavesToNew(strategy v1alpha1.MachineDeploymentStrategy) bool {
	return strategy.Type == v1alpha1.OnDelete || strategy.Type == v1alpha1.InPlace
}

// Scale is a change of one set's replicas.
type Scale struct {
	Name     string
	From, To int
}

// Pick is one Machine of a set.
type Pick struct {
	Set string
	Machine
}

// Plan is what to do.
type Plan struct {
	// Settle ends a transfer that was started before: the sets are unlocked, with as many replicas as they have
	// Machines. Nothing else is done together with it.
	Settle []Scale
	// CreateNew: a set of the current template is to be made, with NewReplicas replicas.
	CreateNew   bool
	NewReplicas int
	// Scale lists the sets to scale, reductions first.
	Scale []Scale
	// Move are Machines of old sets to be handed over to the new one, which updates them in place. The sets are
	// locked for it.
	Move []Pick
	// Remove is a Machine to be deleted together with its place in its set, which is locked for it.
	Remove *Pick
	// Replace are Machines to be deleted because they cannot be updated in place; their set makes others.
	Replace []Pick
	// Sized: the sets have the sizes that the deployment's replicas ask for, as far as a change of replicas goes. Until
	// then each set has to keep what it remembers of the replicas for which it was scaled last.
	Sized bool
	// Held: more Machines would be made now if the peers used less of the surge.
	Held bool
	// HeldBy names the peers that use all of it up, if that is all that keeps the rollout from continuing.
	HeldBy []string
	// Why says in a few words what the plan is for.
	Why string
	// Rolling tells that it is a step of a rollout: Machines of another template than the current one are left.
	Rolling bool
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool {
	return len(p.Settle) == 0 && len(p.Replace) == 0 && len(p.Move) == 0 && p.Remove == nil && p.isResting()
}

// isResting reports whether all sets stay as they are.
func (p Plan) isResting() bool { return !p.CreateNew && len(p.Scale) == 0 }

// Decide plans for one MachineDeployment.
func Decide(in Input) Plan {
	switch {
	case in.Deleting:
		return Plan{Why: "the deployment is being deleted"}
	case in.Frozen:
		return Plan{Why: "frozen"}
	}
	w := newWork(in)
	if settle := w.unlockSets(); len(settle) > 0 {
		return Plan{Settle: settle, Why: "finishing the move of machines between sets"}
	}
	// Until a set's controller has seen what was decided last, it is not known how many Machines it makes or deletes
	// yet. Afterwards all of its doings are among the Machines, however old the counts in its status are.
	for _, set := range w.allPools() {
		if set.Unseen {
			return Plan{Why: "waiting until the controller of machine set " + set.Name + " has seen its last change"}
		}
	}
	if !w.takeMarked(in) {
		w.resizeSets(in)
	}
	p := w.toPlan(in)
	p.Sized = !w.growing
	if !in.isHalted() && in.Strategy.Type != v1alpha1.OnDelete {
		p.Replace = w.notUpdatable()
	}
	// What follows counts on sets that stay as they are.
	if p.isResting() && !in.isHalted() && in.Strategy.Type == v1alpha1.InPlace {
		p.Move = w.nextMoves(in.Strategy.InPlace)
	}
	if p.Empty() {
		p.Remove = w.breakDeadlock(in)
	}
	p.Held = w.held
	if p.Empty() {
		p.HeldBy = w.surgeHolders(in)
	}
	return p
}

// resizeSets decides the replicas of each set.
func (w *work) resizeSets(in Input) {
	switch {
	case in.isHalted():
		w.resizeStep()
	case in.Strategy.Type == v1alpha1.Recreate:
		w.recreateStep()
	case in.Strategy.Type == v1alpha1.OnDelete:
		w.onDelete()
	case in.Strategy.Type == v1alpha1.InPlace:
		w.inPlace()
	default:
		w.rollingStep()
	}
}

// toPlan compares what was decided with what is.
func (w *work) toPlan(in Input) Plan {
	p := Plan{Why: "rolling out", Rolling: true}
	if in.Paused {
		p.Why, p.Rolling = "scaling while paused", false
	} else if in.Refused {
		p.Why, p.Rolling = "scaling without the current template, which was refused", false
	} else if !slices.ContainsFunc(w.old, func(s *pool) bool { return s.before > 0 || len(s.Machines) > 0 }) {
		p.Why, p.Rolling = "scaling", false
	}
	// That of a template that is refused stays empty: it gives the template its revision, so that one can go back.
	if w.current == nil && !in.Paused {
		p.CreateNew, p.NewReplicas = true, w.wantedNew
	}
	for _, set := range w.allPools() {
		if set.Replicas != set.before {
			p.Scale = append(p.Scale, Scale{Name: set.Name, From: set.before, To: set.Replicas})
		}
	}
	slices.SortStableFunc(p.Scale, func(a, b Scale) int { return cmp.Compare(directionOf(a), directionOf(b)) })
	return p
}

func directionOf(s Scale) int { return cmp.Compare(s.To, s.From) }

// rollingStep takes one step of a rolling update. All growth goes to the new set, all shrinking to the old ones.
func (w *work) rollingStep() {
	if w.followScale() {
		return
	}
	w.growNew()
	// Were all old Machines to become available again, this many may go: those that the new set cannot stand in
	// for yet have to stay, available or not.
	missing := w.newReplicas()
	if w.current != nil {
		missing -= w.current.remainingAvailable()
	}
	w.reduceReplicas(w.old, w.wantedReplicas()-w.minAvailable-missing, w.minAvailable)
	w.shedSurplus()
}

// inPlace follows a change of replicas; the Machines that there are get moved, not replaced. Those that old sets
// lose are recreated by the new one.
func (w *work) inPlace() {
	if w.followScale() {
		return
	}
	w.shrinkToActive(w.minAvailable)
	w.growNew()
	w.reduceReplicas(w.old, w.wantedReplicas()-w.limit, w.minAvailable)
	w.shedSurplus()
	if surplus := w.wantedReplicas() - w.limit; surplus > 0 && w.current != nil {
		w.reduceReplicas([]*pool{w.current}, surplus, w.minAvailable)
	}
}

// shedSurplus takes Machines off the new set that cost no availability while there are too many in all. That happens
// after the deployment was scaled down, when the new Machines are not available and the old ones may not go.
func (w *work) shedSurplus() {
	for w.current != nil && w.wantedReplicas() > w.limit && w.current.Replicas > 0 && w.current.availableAfter(w.current.Replicas-1) == w.current.remainingAvailable() {
		w.current.Replicas--
	}
}

// followScale lets several sets in use grow in proportion when the deployment was scaled up amid a rollout: what
// serves now gets its share, should the new template turn out bad. One set in use, or none, leaves it all to the
// new set. Each set knows for which replicas it was scaled last, so a set that merely waits for its turn in the
// rollout is not mistaken for one that has to grow. It reports whether any set grows.
func (w *work) followScale() bool {
	sets := growableSets(w.inUse())
	grown := slices.ContainsFunc(sets, func(s *pool) bool { return s.SizedFor != nil && *s.SizedFor < w.replicas })
	if len(sets) < 2 || !grown {
		return false
	}
	room := w.freeSlots(w.replicas - w.wantedReplicas())
	if room > 0 {
		growReplicas(sets, room)
	}
	// What Machines that are being deleted leave no room for follows when they are gone.
	w.growing = w.wantedReplicas() < w.replicas
	return room > 0
}

// takeMarked lets the sets whose Machines are marked for deletion shrink first when the deployment was scaled down while
// several sets are in use: cluster-autoscaler has drained the Nodes of these Machines. A set that is about to make or
// delete Machines is left out, because its controller might take others. It reports whether any set shrinks: nothing
// else is done in this step, lest the set grow again before the Machines have gone.
func (w *work) takeMarked(in Input) (taken bool) {
	sets := w.inUse()
	if len(sets) < 2 || in.Strategy.Type == v1alpha1.Recreate {
		return false
	}
	fewer := 0
	for _, set := range sets {
		if set.SizedFor != nil {
			fewer = max(fewer, *set.SizedFor-w.replicas)
		}
	}
	for _, set := range sets {
		if !set.isFull() {
			continue
		}
		before := set.Replicas
		w.reduceReplicas([]*pool{set}, min(set.countMarked(), fewer), w.minAvailable)
		fewer -= before - set.Replicas
		taken = taken || set.Replicas < before
	}
	return taken
}

// recreateStep empties the old sets and fills the new one when all their Machines are gone.
func (w *work) recreateStep() {
	gone := true
	for _, set := range w.old {
		gone = gone && set.mostMachines() == 0
		set.Replicas = 0
	}
	w.setNewReplicas(min(w.newReplicas(), w.replicas))
	if gone {
		w.setNewReplicas(w.replicas)
	}
}

// onDelete lets the new set replace what users deleted from old ones.
func (w *work) onDelete() {
	w.shrinkToActive(0)
	w.setNewReplicas(min(w.newReplicas(), w.replicas))
	w.reduceReplicas(w.old, w.wantedReplicas()-w.replicas, 0)
	w.growNew()
}

// shrinkToActive takes the places off old sets whose Machines are gone or going.
func (w *work) shrinkToActive(minAvailable int) {
	for _, set := range w.old {
		w.reduceReplicas([]*pool{set}, set.Replicas-set.active, minAvailable)
	}
}

// resizeStep follows a change of replicas without replacing anything: one set in use takes it all; several grow in
// proportion to their size and shrink where it costs the fewest available Machines.
func (w *work) resizeStep() {
	sets := w.inUse()
	if len(sets) == 0 {
		return
	}
	growing, missing := growableSets(sets), 0
	if len(growing) > 0 {
		missing = w.freeSlots(w.replicas - w.wantedReplicas())
	}
	if len(sets) == 1 {
		sets[0].Replicas = min(w.replicas, sets[0].Replicas+missing)
		return
	}
	growReplicas(growing, missing)
	// A rollout that was paused halfway keeps its surge.
	w.reduceReplicas(sets, w.wantedReplicas()-w.limit, w.minAvailable)
}

// inUse returns the sets with replicas; without any, the one that serves the latest template that is not refused.
func (w *work) inUse() []*pool {
	var used []*pool
	all := w.allPools()
	for _, set := range all {
		if set.Replicas > 0 {
			used = append(used, set)
		}
	}
	if all = growableSets(all); len(used) == 0 && len(all) > 0 {
		return all[len(all)-1:]
	}
	return used
}

// growableSets returns those of sets that may make more Machines.
func growableSets(sets []*pool) []*pool {
	return slices.DeleteFunc(slices.Clone(sets), func(s *pool) bool { return s.Refused })
}
