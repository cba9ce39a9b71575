package podlife

import (
	"cmp"
	"sync"
	"time"
)

// stopper carries the order to end and the time by which it must be obeyed. The order can be repeated, which can only bring the time forward.
type stopper struct {
	requested chan struct{}

	mu       sync.Mutex
	deadline time.Time
	changed  chan struct{}
}

func newStopper() *stopper {
	return &stopper{requested: make(chan struct{}), changed: make(chan struct{})}
}

// request orders the end within the grace period.
func (s *stopper) request(grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := time.Now().Add(grace)
	switch {
	case s.deadline.IsZero():
		close(s.requested)
	case !deadline.Before(s.deadline):
		return
	}
	s.deadline = deadline
	close(s.changed)
	s.changed = make(chan struct{})
}

// current returns the time, zero if there is no order yet, and a channel that is closed when it changes.
func (s *stopper) current() (time.Time, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline, s.changed
}

func (s *stopper) isRequested() bool {
	select {
	case <-s.requested:
		return true
	default:
		return false
	}
}

// Backoff is how long a node that ended waits for its restart, as for a kubelet's containers: the first restart is immediate, the following
// ones wait twice as long each time, and a node that ran for twice the maximum starts over.
type Backoff struct {
	// Initial is the delay of the second restart. The default is 10 s.
	Initial time.Duration
	// Max is the longest delay. The default is 5 minutes.
	Max time.Duration
}

// WithDefaults fills in the kubelet's values.
func (b Backoff) WithDefaults() Backoff {
	return Backoff{Initial: cmp.Or(b.Initial, 10*time.Second), Max: cmp.Or(b.Max, 5*time.Minute)}
}

// backoff counts the restarts of one node.
type backoff struct {
	policy  Backoff
	started bool
	delay   time.Duration
}

// next returns the delay before the next restart of a node that ran for the given time.
func (b *backoff) next(ran time.Duration) time.Duration {
	if !b.started || ran > 2*b.policy.Max {
		b.started, b.delay = true, 0
		return 0
	}
	b.delay = min(max(2*b.delay, b.policy.Initial), b.policy.Max)
	return b.delay
}
