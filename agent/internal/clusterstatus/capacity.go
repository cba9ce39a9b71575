package clusterstatus

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// longestWait is how long a capacity may keep changing before it is reported all the same.
const longestWait = 30 * time.Second

// debouncedCapacity holds a capacity back while it changes: a scale-up is reported as one change, not as many.
type debouncedCapacity struct {
	reported, pending corev1.ResourceList
	since             time.Time
}

// offer takes in the capacity now and returns the one to report. One that differs is reported when it is offered
// twice in a row, or has been changing for longestWait.
func (s *debouncedCapacity) offer(capacity corev1.ResourceList, now time.Time) corev1.ResourceList {
	switch {
	case capacity == nil || equality.Semantic.DeepEqual(capacity, s.reported):
		s.pending, s.since = nil, time.Time{}
		return s.reported
	case s.reported == nil:
		s.reported = capacity
		return s.reported
	}
	if s.since.IsZero() {
		s.since = now
	}
	if equality.Semantic.DeepEqual(capacity, s.pending) || now.Sub(s.since) >= longestWait {
		s.reported, s.pending, s.since = capacity, nil, time.Time{}
		return s.reported
	}
	s.pending = capacity
	return s.reported
}

// Sum adds up the capacity of nodes. It is never nil: no nodes have no capacity.
func Sum(nodes []corev1.Node) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range nodes {
		for name, quantity := range nodes[i].Status.Capacity {
			if quantity.IsZero() {
				continue
			}
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	return sum
}
