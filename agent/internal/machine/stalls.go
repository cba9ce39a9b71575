package machine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// stalls knows since when each Machine has made no step. It is only a memory: after a restart the wait begins anew.
type stalls struct {
	after time.Duration
	mu    sync.Mutex
	byUID map[types.UID]stall
}

type stall struct {
	progress string
	since    time.Time
}

func newStalls(after time.Duration) *stalls {
	return &stalls{after: after, byUID: map[types.UID]stall{}}
}

// delay returns for how long the status in machine, which was stored before, is not to be written; 0 is now.
func (s *stalls) delay(machine *v1alpha1.Machine, stored v1alpha1.MachineStatus, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if equality.Semantic.DeepEqual(stored, machine.Status) || Urgent(stored, machine.Status) {
		delete(s.byUID, machine.UID)
		return 0
	}
	progress := Progress(machine.Status)
	last, ok := s.byUID[machine.UID]
	if !ok || last.progress != progress {
		last = stall{progress: progress, since: now}
		s.byUID[machine.UID] = last
	}
	return max(s.after-now.Sub(last.since), 0)
}

func (s *stalls) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, uid)
}
