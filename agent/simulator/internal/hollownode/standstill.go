package hollownode

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// standstillWait is the mean time between two looks. They are at random times, so that they do not fall together with those at which a
	// process continues that is stopped and continued again and again.
	standstillWait = time.Second
	// standstillLate is by how much half of the looks have to be late for a process that stands still most of the time, and
	// standstillLooks how many looks that needs. 200 hollow nodes that start pods on two processors are late by milliseconds.
	standstillLate  = 200 * time.Millisecond
	standstillLooks = 6
	// standstillKept is how many looks count.
	standstillKept = 10
)

// standstill notices that the process was made to stand still most of the time: stopped, or kept from its processors by other means
// than those that the kernel counts as waiting for one.
type standstill struct {
	mu   sync.Mutex
	late []time.Duration
}

// watchClock looks at the clock from time to time, as long as the process lives.
func (s *standstill) watchClock() {
	for {
		wait := time.Duration((0.5 + rand.Float64()) * float64(standstillWait)) //nolint:gosec // No secret.
		due := time.Now().Add(wait)
		<-time.After(wait)
		s.addDelay(time.Since(due))
	}
}

func (s *standstill) addDelay(late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, late)
	if len(s.late) > standstillKept {
		s.late = s.late[1:]
	}
}

// stoodStill reports whether the process stood still most of the time lately. One long stop is not most of the time: it is a late heartbeat.
func (s *standstill) stoodStill() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.late) < standstillLooks {
		return false
	}
	sorted := slices.Sorted(slices.Values(s.late))
	return sorted[len(sorted)/2] > standstillLate
}
