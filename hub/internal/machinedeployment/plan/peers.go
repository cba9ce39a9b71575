package plan

import "slices"

// Peer is what counts of another deployment that shares the surge with this one.
type Peer struct {
	Name string
	// Replicas that it is to have.
	Replicas int
	// Machines that it has, or may make at any moment, those being deleted too.
	Machines int
	// Unseen: the controller of one of its sets has not reported on the set's present spec, so it may get more
	// Machines than these.
	Unseen bool
}

// surge is how much of the shared surge it uses.
func (p Peer) surge() int { return max(p.Machines-p.Replicas, 0) }

// surge is how many Machines more than replicas may exist, those of the peers counted in: a percentage is of all. A
// deployment that was scaled to 0 is to have no Machine at all, as in apps/v1.
func (in Input) surge() int {
	if in.Replicas == 0 {
		return 0
	}
	replicas := in.Replicas
	for _, peer := range in.Peers {
		replicas += peer.Replicas
	}
	surge, _ := in.Strategy.Bounds(replicas)
	return surge
}

// left is what of surge the peers leave. Nothing, as long as it is not known how much they use.
func left(surge int, peers []Peer) int {
	for _, peer := range peers {
		if peer.Unseen {
			return 0
		}
		surge -= peer.surge()
	}
	return max(surge, 0)
}

// room is how many of wanted Machines more may be made now. What only the peers' surge keeps back is noted.
func (w *work) room(wanted int) int {
	own := min(wanted, w.limit-w.occupied())
	shared := max(min(wanted, w.ceiling-w.occupied()), 0)
	w.held = w.held || shared < own
	return shared
}

// holders are the peers that use the whole surge up while this deployment, for lack of it, has nothing to do or to wait
// for. What a peer uses for a moment only, while it is unseen, is not worth telling.
func (w *work) holders(in Input) []string {
	used := 0
	var names []string
	for _, peer := range in.Peers {
		if used += peer.surge(); peer.surge() > 0 {
			names = append(names, peer.Name)
		}
	}
	switch {
	case !w.held || used < w.limit-w.replicas:
		return nil
	case slices.ContainsFunc(w.all(), func(s *pool) bool { return !s.resting() }):
		return nil
	case w.current != nil && w.current.available < w.current.Replicas:
		return nil // What it waits for first is its own.
	}
	slices.Sort(names)
	return names
}
