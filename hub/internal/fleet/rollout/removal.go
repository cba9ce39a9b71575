package rollout

import (
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// dueRemovals are the clusters that have left, and in which the MachineDeployment is deleted now, by name: when they have been gone
// for settleTime, in their maintenance windows, and within maxConcurrency, of which room is left.
func (s *Scope) dueRemovals(room int) (now, waiting []*Member) {
	if s.Fleet.Spec.RemovalPolicy != v1alpha1.RemovalDelete {
		return nil, nil
	}
	for _, m := range s.Left {
		settling := s.Now.Sub(m.leftSince) < SettleTime
		switch {
		case m.Deployment.DeletionTimestamp != nil, m.held != "":
		case settling || m.silent || m.closed || room <= 0:
			waiting = append(waiting, m)
		default:
			room--
			now = append(now, m)
		}
	}
	return now, waiting
}

// countDeleting is how many clusters have left in which the MachineDeployment is being deleted. Its Machines take up room until it is gone,
// for starts and for other deletions, unless the cluster cannot be seen: then it holds no other.
func (s *Scope) countDeleting() int {
	count := 0
	for _, m := range s.Left {
		if m.Deployment.DeletionTimestamp != nil && m.held == "" {
			count++
		}
	}
	return count
}

// RemovalOpensAt is when the first maintenance window opens for which a removal waits; zero if none does.
func (s *Scope) RemovalOpensAt(d Decision) time.Time {
	var first time.Time
	for _, m := range d.removalsWaiting {
		if m.closed && (first.IsZero() || m.opensAt.Before(first)) {
			first = m.opensAt
		}
	}
	return first
}
