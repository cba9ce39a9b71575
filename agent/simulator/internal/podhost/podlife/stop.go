package podlife

import (
	"sync"
	"syscall"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
)

// stopper carries the order to end and the time by which it must be obeyed.
// The order can be repeated, which can only bring the time forward.
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

// current returns the time, zero if there is no order yet, and a channel that
// is closed when it changes.
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

// terminate asks the process to end, kills it when the earlier of the two
// deadlines has come, and returns when it has ended.
func terminate(p process.Running, own, pod *stopper) {
	p.Signal(syscall.SIGTERM)
	for {
		deadline, ownChanged := own.current()
		podDeadline, podChanged := pod.current()
		if !podDeadline.IsZero() && podDeadline.Before(deadline) {
			deadline = podDeadline
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-p.Done():
			timer.Stop()
			return
		case <-ownChanged:
		case <-podChanged:
		case <-timer.C:
			p.Signal(syscall.SIGKILL)
			<-p.Done()
			return
		}
		timer.Stop()
	}
}
