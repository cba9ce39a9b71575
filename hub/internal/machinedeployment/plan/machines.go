package plan

import (
	"cmp"
	"slices"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// mostMoves bounds one transfer: as long as it lasts, the sets that take part make and delete no Machines.
const mostMoves = 50

// unlockSets returns the sets that are locked, with the replicas that they are unlocked with: as many as they have
// Machines. That needs no record of what a transfer was to do, so one that was cut short at any point is
// finished in the same way as one that went to its end. A Machine that was lost meanwhile is missing in the sum,
// and made good by the new set.
func (w *work) unlockSets() []Scale {
	var sets []Scale
	for _, set := range w.allPools() {
		if set.Locked {
			sets = append(sets, Scale{Name: set.Name, From: set.Replicas, To: set.active})
		}
	}
	return sets
}

// nextMoves returns the next Machines to be updated in place: those that are not available first, because they cost
// nothing. The new set never has more unavailable Machines than the budget by it, not even such as were down
// before: they might come up, and then all be drained at once.
func (w *work) nextMoves(options *v1alpha1.InPlaceUpdate) []Pick {
	if w.current == nil || !w.current.isFull() {
		return nil
	}
	slots := min(w.unavailable-w.current.countUnsettled(), mostMoves)
	spare := w.remainingAvailable() - w.minAvailable
	manual := options != nil && options.Trigger == v1alpha1.InPlaceManual
	var picked []Pick
	for _, candidate := range w.moveCandidates(manual) {
		if len(picked) >= slots {
			break
		}
		if candidate.Available {
			if spare <= 0 {
				break
			}
			spare--
		}
		picked = append(picked, candidate)
	}
	return picked
}

// countUnsettled counts the Machines that are not available. One that has to be replaced is no part of it: it would block
// the way to its own replacement.
func (p *pool) countUnsettled() int {
	count := 0
	for _, machine := range p.Machines {
		if !machine.Deleting && !machine.Available && machine.Update != v1alpha1.ReasonInPlaceUnsupported {
			count++
		}
	}
	return count
}

// moveCandidates returns the Machines of old sets that may be moved, first to move first. A set that has to make or
// delete Machines has to finish that before: what its controller has started, no lock would stop.
func (w *work) moveCandidates(manual bool) []Pick {
	var all []Pick
	for _, set := range w.old {
		if set.Name == "" || !set.isFull() {
			continue
		}
		for _, machine := range set.Machines {
			if !machine.Deleting && (machine.Requested || !manual) {
				all = append(all, Pick{set.Name, machine})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Pick) int {
		return cmp.Or(
			compareBool(!a.Available, !b.Available),
			compareBool(!a.Marked, !b.Marked), // Likely to be deleted soon.
			a.Created.Compare(b.Created),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return all
}

// notUpdatable returns the Machines that cannot be updated in place, as their provider says, and may go. They do
// not count as available, but while their Nodes serve, and too few others do, they stay.
func (w *work) notUpdatable() []Pick {
	if w.current == nil {
		return nil
	}
	var down, up []Pick
	for _, machine := range w.current.Machines {
		switch {
		case machine.Deleting || machine.Update != v1alpha1.ReasonInPlaceUnsupported:
		case machine.Ready:
			up = append(up, Pick{w.current.Name, machine})
		default:
			down = append(down, Pick{w.current.Name, machine})
		}
	}
	spare := w.remainingAvailable() + len(up) - w.minAvailable
	return append(down, up[:max(min(spare, len(up)), 0)]...)
}

// breakDeadlock breaks a deadlock: everything rests, there is something left to take away, and each scale-down might hit
// an available Machine that the budget needs, because marks and priorities put it first. Then one that is not
// available is taken by its name.
func (w *work) breakDeadlock(in Input) *Pick {
	if slices.ContainsFunc(w.allPools(), func(s *pool) bool { return !s.isResting() }) {
		return nil
	}
	sets := w.old
	switch {
	case w.wantedReplicas() > w.limit:
		sets = w.allPools()
	case in.isHalted() || w.current == nil || w.current.available < w.current.Replicas:
		return nil
	case in.Strategy.Type == v1alpha1.InPlace || in.Strategy.Type == v1alpha1.OnDelete:
		return nil
	}
	for _, set := range sets {
		for _, machine := range set.Machines {
			if !machine.Available {
				return &Pick{set.Name, machine}
			}
		}
	}
	return nil
}
