package plan

import (
	"slices"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// roll takes one step of a rolling update. All growth goes to the new set, all shrinking to the old ones.
func (w *work) roll() {
	if w.followScale() {
		return
	}
	w.growNew()
	// Were all old Machines to become available again, this many may go: those that the new set cannot stand in
	// for yet have to stay, available or not.
	missing := w.newReplicas()
	if w.current != nil {
		missing -= w.current.kept()
	}
	w.reduce(w.old, w.wanted()-w.minAvailable-missing, w.minAvailable)
	w.shed()
}

// inPlace follows a change of replicas; the Machines that there are get moved, not replaced. Those that old sets
// lose are made anew by the new one.
func (w *work) inPlace() {
	if w.followScale() {
		return
	}
	w.shrinkToActive(w.minAvailable)
	w.growNew()
	w.reduce(w.old, w.wanted()-w.limit, w.minAvailable)
	w.shed()
	if surplus := w.wanted() - w.limit; surplus > 0 && w.current != nil {
		w.reduce([]*pool{w.current}, surplus, w.minAvailable)
	}
}

// shed takes Machines off the new set that cost no availability while there are too many in all. That happens
// after the deployment was scaled down, when the new Machines are not available and the old ones may not go.
func (w *work) shed() {
	for w.current != nil && w.wanted() > w.limit && w.current.Replicas > 0 && w.current.keeps(w.current.Replicas-1) == w.current.kept() {
		w.current.Replicas--
	}
}

// followScale lets several sets in use grow in proportion when the deployment was scaled up amid a rollout: what
// serves now gets its share, should the new template turn out bad. One set in use, or none, leaves it all to the
// new set. Each set knows for which replicas it was scaled last, so a set that merely waits for its turn in the
// rollout is not mistaken for one that has to grow. It reports whether any set grows.
func (w *work) followScale() bool {
	sets := able(w.inUse())
	grown := slices.ContainsFunc(sets, func(s *pool) bool { return s.SizedFor != nil && *s.SizedFor < w.replicas })
	if len(sets) < 2 || !grown {
		return false
	}
	room := w.room(w.replicas - w.wanted())
	if room > 0 {
		grow(sets, room)
	}
	// What Machines that are being deleted leave no room for follows when they are gone.
	w.growing = w.wanted() < w.replicas
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
		if !set.full() {
			continue
		}
		before := set.Replicas
		w.reduce([]*pool{set}, min(set.marked(), fewer), w.minAvailable)
		fewer -= before - set.Replicas
		taken = taken || set.Replicas < before
	}
	return taken
}

// recreate empties the old sets and fills the new one when all their Machines are gone.
func (w *work) recreate() {
	gone := true
	for _, set := range w.old {
		gone = gone && set.occupies() == 0
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
	w.reduce(w.old, w.wanted()-w.replicas, 0)
	w.growNew()
}

// shrinkToActive takes the places off old sets whose Machines are gone or going.
func (w *work) shrinkToActive(minAvailable int) {
	for _, set := range w.old {
		w.reduce([]*pool{set}, set.Replicas-set.active, minAvailable)
	}
}

// resize follows a change of replicas without replacing anything: one set in use takes it all; several grow in
// proportion to their size and shrink where it costs the fewest available Machines.
func (w *work) resize() {
	sets := w.inUse()
	if len(sets) == 0 {
		return
	}
	growing, missing := able(sets), 0
	if len(growing) > 0 {
		missing = w.room(w.replicas - w.wanted())
	}
	if len(sets) == 1 {
		sets[0].Replicas = min(w.replicas, sets[0].Replicas+missing)
		return
	}
	grow(growing, missing)
	// A rollout that was paused halfway keeps its surge.
	w.reduce(sets, w.wanted()-w.limit, w.minAvailable)
}

// inUse returns the sets with replicas; without any, the one that serves the latest template that is not refused.
func (w *work) inUse() []*pool {
	var used []*pool
	all := w.all()
	for _, set := range all {
		if set.Replicas > 0 {
			used = append(used, set)
		}
	}
	if all = able(all); len(used) == 0 && len(all) > 0 {
		return all[len(all)-1:]
	}
	return used
}

// able returns those of sets that may make more Machines.
func able(sets []*pool) []*pool {
	return slices.DeleteFunc(slices.Clone(sets), func(s *pool) bool { return s.Refused })
}
