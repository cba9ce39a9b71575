package fleet

import (
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// dueRemovals are the clusters that have left, and in which the MachineDeployment is deleted now, by name: when they have been gone
// for settleTime, in their maintenance windows, and within maxConcurrency, of which room is left.
func (s *scope) dueRemovals(room int) (now, waiting []*member) {
	if s.fleet.Spec.RemovalPolicy != v1alpha1.RemovalDelete {
		return nil, nil
	}
	for _, m := range s.left {
		settling := s.now.Sub(m.leftSince) < settleTime
		switch {
		case m.deployment.DeletionTimestamp != nil, m.held != "":
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
func (s *scope) countDeleting() int {
	count := 0
	for _, m := range s.left {
		if m.deployment.DeletionTimestamp != nil && m.held == "" {
			count++
		}
	}
	return count
}

// removalOpensAt is when the first maintenance window opens for which a removal waits; zero if none does.
func (s *scope) removalOpensAt(d decision) time.Time {
	var first time.Time
	for _, m := range d.removalsWaiting {
		if m.closed && (first.IsZero() || m.opensAt.Before(first)) {
			first = m.opensAt
		}
	}
	return first
}
