package plan

import (
	"slices"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

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
