package plan

import (
	"cmp"
	"slices"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// pool is a set during one decision: Replicas is what was decided so far, before what it was.
type pool struct {
	Set
	before int
	// active counts the Machines that are not being deleted, available those which are available, coming those
	// that are missing, or about to be, and may be made at any moment.
	active, available, coming int
	// losses has, for each number of Machines that a scale-down takes, how many available ones may be among them.
	losses []int
}

// newPool is set before anything is decided. One that does not fill its places makes no Machines for those that it lacks.
func newPool(set Set, fills bool) *pool {
	p := &pool{Set: set, before: set.Replicas}
	var active []Machine
	for _, machine := range set.Machines {
		if machine.Deleting {
			continue
		}
		active = append(active, machine)
		p.active++
		if machine.Available {
			p.available++
		}
	}
	if fills {
		p.coming = max(set.Replicas-p.active, 0)
	}
	for range p.coming {
		active = append(active, Machine{Priority: set.Priority})
	}
	slices.SortFunc(active, firstToGo)
	p.losses = make([]int, 1, len(active)+1)
	lost := 0
	for _, machine := range active {
		if machine.Available {
			lost++
		}
		p.losses = append(p.losses, lost)
	}
	return p
}

// firstToGo is the worst order in which a set's scale-down may take its Machines. A mark on one that is not
// available is not counted on, because a mark that has grown old no longer puts a Machine first.
func firstToGo(a, b Machine) int {
	return cmp.Or(
		compareBool(a.Marked && a.Available, b.Marked && b.Available),
		cmp.Compare(a.Priority, b.Priority),
		compareBool(!a.Available, !b.Available),
	)
}

// compareBool orders the true one first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// availableAfter is how many available Machines are surely left when the set has been scaled to replicas. Those that its
// controller has yet to delete may be chosen already, when others were available: no scaling saves them.
func (p *pool) availableAfter(replicas int) int {
	chosen := min(max(p.active-p.before, 0), p.available)
	return p.available - max(chosen, p.losses[max(p.active+p.coming-replicas, 0)])
}

// remainingAvailable is the same for what was decided so far.
func (p *pool) remainingAvailable() int { return p.availableAfter(p.Replicas) }

// mostMachines is how many Machines the set has or may make at any moment. Places that are taken off it in this
// decision count still: its controller may be filling them right now.
func (p *pool) mostMachines() int { return max(p.Replicas, p.before, len(p.Machines)) }

// isFull reports whether the set has as many Machines as it is to have, apart from those that go: its controller then
// neither makes nor deletes any.
func (p *pool) isFull() bool { return p.active == p.Replicas }

// countMarked counts the Machines that are marked for deletion and not being deleted.
func (p *pool) countMarked() int {
	count := 0
	for _, machine := range p.Machines {
		if machine.Marked && !machine.Deleting {
			count++
		}
	}
	return count
}

// isResting reports whether the set has all its Machines, and nothing of them is about to change by itself.
func (p *pool) isResting() bool {
	return p.mostMachines() == p.active && p.active == p.Replicas && !slices.ContainsFunc(p.Machines, func(m Machine) bool {
		waits := m.Ready && !m.Available && m.Update == ""
		return waits || m.Update == v1alpha1.ReasonAwaitingUpdate
	})
}

// work is the state of one decision.
type work struct {
	replicas     int
	limit        int // Most Machines at any moment.
	ceiling      int // Most Machines that new ones may make it: less than limit as far as peers use the surge.
	minAvailable int
	unavailable  int     // Most unavailable ones.
	old          []*pool // Oldest first.
	current      *pool   // The new set; nil if it is not made yet.
	wantedNew    int     // The replicas of a new set that is not made yet.
	held         bool    // The ceiling has kept Machines back that the limit allows.
	growing      bool    // Sets in use have to grow in proportion, and there is no room for all of it yet.
}

func newWork(in Input) *work {
	_, unavailable := in.Strategy.Bounds(in.Replicas)
	surge := in.maxSurge()
	w := &work{
		replicas: in.Replicas, limit: in.Replicas + surge, ceiling: in.Replicas + remainingSurge(surge, in.Peers),
		minAvailable: in.Replicas - unavailable, unavailable: unavailable,
	}
	for _, set := range in.Old {
		w.old = append(w.old, newPool(set, !in.leavesToNew()))
	}
	slices.SortFunc(w.old, func(a, b *pool) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	if in.New != nil {
		w.current = newPool(*in.New, true)
		w.current.Refused = in.Refused
	}
	return w
}

// allPools returns the sets that there are, the new one last.
func (w *work) allPools() []*pool {
	if w.current == nil {
		return w.old
	}
	return append(slices.Clone(w.old), w.current)
}

// wantedReplicas is the sum of all replicas decided so far.
func (w *work) wantedReplicas() int {
	sum := w.wantedNew
	for _, set := range w.allPools() {
		sum += set.Replicas
	}
	return sum
}

// countOccupied adds the Machines that are still there.
func (w *work) countOccupied() int {
	sum := w.wantedNew
	for _, set := range w.allPools() {
		sum += set.mostMachines()
	}
	return sum
}

// remainingAvailable is how many available Machines are surely left after what was decided so far.
func (w *work) remainingAvailable() int {
	sum := 0
	for _, set := range w.allPools() {
		sum += set.remainingAvailable()
	}
	return sum
}

// newReplicas is what was decided for the new set so far, whether it is made or not.
func (w *work) newReplicas() int {
	if w.current == nil {
		return w.wantedNew
	}
	return w.current.Replicas
}

func (w *work) setNewReplicas(replicas int) {
	if w.current == nil {
		w.wantedNew = replicas
	} else {
		w.current.Replicas = replicas
	}
}

// growNew lets the new set grow to replicas as far as there is room.
func (w *work) growNew() {
	wanted := min(w.newReplicas(), w.replicas)
	w.setNewReplicas(wanted)
	w.setNewReplicas(wanted + w.freeSlots(w.replicas-wanted))
}

// reduceReplicas takes up to count replicas off sets, in their order: first those that cost no available Machine, then
// others while the budget is kept.
func (w *work) reduceReplicas(sets []*pool, count, minAvailable int) {
	taken := 0
	for _, mayCost := range []bool{false, true} {
		for _, set := range sets {
			for taken < count && set.Replicas > 0 {
				cost := set.remainingAvailable() - set.availableAfter(set.Replicas-1)
				if cost > 0 && (!mayCost || w.remainingAvailable()-cost < minAvailable) {
					break
				}
				set.Replicas--
				taken++
			}
		}
	}
}

// growReplicas spreads count over sets in proportion to their replicas; what does not divide goes to the last ones,
// which are the newest.
func growReplicas(sets []*pool, count int) {
	total := 0
	for _, set := range sets {
		total += set.Replicas
	}
	left := count
	for _, set := range sets {
		share := 0
		if total > 0 {
			share = count * set.Replicas / total
		}
		set.Replicas += share
		left -= share
	}
	for _, set := range slices.Backward(sets) {
		if left == 0 {
			return
		}
		set.Replicas++
		left--
	}
}
