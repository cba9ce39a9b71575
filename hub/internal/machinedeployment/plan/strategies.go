package plan

import "slices"

// roll takes one step of a rolling update. All growth goes to the new set, all shrinking to the old ones.
func (w *work) roll() {
	w.current.Replicas = min(w.current.Replicas, w.replicas)
	if room := w.limit - w.occupied(); room > 0 {
		w.current.Replicas = min(w.current.Replicas+room, w.replicas)
	}
	// Were all old Machines to become available again, this many may go: those that the new set cannot
	// stand in for yet have to stay, available or not.
	missing := w.current.Replicas - w.current.keeps(w.current.Replicas)
	w.shrinkOld(w.wanted()-w.minAvailable-missing, w.minAvailable)
	// After a scale-down of the deployment there may still be too many, because the new set's are not
	// available and the old ones may not go. Then the new ones do, which cost no availability.
	for w.wanted() > w.limit && w.current.Replicas > 0 &&
		w.current.keeps(w.current.Replicas-1) == w.current.keeps(w.current.Replicas) {
		w.current.Replicas--
	}
}

// recreate empties the old sets and fills the new one when all their Machines are gone.
func (w *work) recreate() {
	gone := true
	for i := range w.sets {
		w.sets[i].Replicas = 0
		gone = gone && w.sets[i].Actual == 0
	}
	w.current.Replicas = min(w.current.Replicas, w.replicas)
	if gone {
		w.current.Replicas = w.replicas
	}
}

// onDelete lets the new set replace what somebody deleted from old ones.
func (w *work) onDelete() {
	for i := range w.sets {
		w.sets[i].Replicas = min(w.sets[i].Replicas, w.sets[i].Active)
	}
	w.current.Replicas = min(w.current.Replicas, w.replicas)
	if surplus := w.wanted() - w.replicas; surplus > 0 {
		w.shrinkOld(surplus, 0)
	}
	if room := w.limit - w.occupied(); room > 0 {
		w.current.Replicas = min(w.current.Replicas+room, w.replicas)
	}
}

// resize follows a change of replicas without replacing anything: one set in use takes it all; several grow
// in proportion to their size and shrink where it costs the fewest available Machines.
func (w *work) resize() {
	sets := w.inUse()
	if len(sets) == 0 {
		return
	}
	if len(sets) == 1 {
		room := max(w.limit-w.occupied(), 0)
		sets[0].Replicas = min(w.replicas, sets[0].Replicas+room)
		return
	}
	if missing := min(w.replicas-w.wanted(), w.limit-w.occupied()); missing > 0 {
		grow(sets, missing)
	}
	// A rollout that was paused halfway keeps its surge.
	if surplus := w.wanted() - w.limit; surplus > 0 {
		surplus -= reduce(sets, surplus, w.minAvailable, w.kept)
		for surplus > 0 { // Marked for deletion by somebody, and so the first to go, available or not.
			largest(sets).Replicas--
			surplus--
		}
	}
}

// inUse returns the sets with replicas; without any, the one that serves the latest template.
func (w *work) inUse() []*Set {
	var all, used []*Set
	for i := range w.sets {
		all = append(all, &w.sets[i])
	}
	if w.exists {
		all = append(all, &w.current)
	}
	for _, set := range all {
		if set.Replicas > 0 {
			used = append(used, set)
		}
	}
	if len(used) == 0 && len(all) > 0 {
		return all[len(all)-1:]
	}
	return used
}

// wanted is the sum of all replicas decided so far; occupied adds the Machines that are still there.
func (w *work) wanted() int {
	sum := w.current.Replicas
	for _, set := range w.sets {
		sum += set.Replicas
	}
	return sum
}

func (w *work) occupied() int {
	sum := w.current.occupies()
	for _, set := range w.sets {
		sum += set.occupies()
	}
	return sum
}

// kept is how many available Machines are surely left after what was decided so far.
func (w *work) kept() int {
	sum := w.current.keeps(w.current.Replicas)
	for _, set := range w.sets {
		sum += set.keeps(set.Replicas)
	}
	return sum
}

func (w *work) shrinkOld(count, minAvailable int) {
	var old []*Set
	for i := range w.sets {
		old = append(old, &w.sets[i])
	}
	reduce(old, count, minAvailable, w.kept)
}

// reduce takes up to count replicas off sets, in their order: first those that cost no available Machine,
// then others while minAvailable are kept. It returns how many it took.
func reduce(sets []*Set, count, minAvailable int, kept func() int) (taken int) {
	for _, mayCost := range []bool{false, true} {
		for _, set := range sets {
			for taken < count && set.Replicas > 0 {
				cost := set.keeps(set.Replicas) - set.keeps(set.Replicas-1)
				if cost > 0 && (!mayCost || kept()-cost < minAvailable) {
					break
				}
				set.Replicas--
				taken++
			}
		}
	}
	return taken
}

// grow spreads count over sets in proportion to their replicas; what does not divide goes to the last ones,
// which are the newest.
func grow(sets []*Set, count int) {
	total := 0
	for _, set := range sets {
		total += set.Replicas
	}
	left := count
	for _, set := range sets {
		share := count * set.Replicas / total
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

func largest(sets []*Set) *Set {
	return slices.MaxFunc(sets, func(a, b *Set) int { return a.Replicas - b.Replicas })
}
