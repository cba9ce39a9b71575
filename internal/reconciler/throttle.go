package reconciler

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// StatusInterval is the least time between two writes of one object's counts.
	StatusInterval = 5 * time.Second
	// LongestStatusInterval is the longest time that BackoffDelay holds counts back.
	LongestStatusInterval = time.Minute
)

// StatusThrottle remembers when each object's status was last written. The zero value is ready for use.
type StatusThrottle struct {
	mu   sync.Mutex
	last map[types.UID]write
}

// write is the last write of an object's status, and how long the next one waits.
type write struct {
	at       time.Time
	interval time.Duration
}

// StatusBounds are those of an interval that grows.
type StatusBounds struct{ First, Longest time.Duration }

// Delay returns how long a changed status of object has to wait; 0 means that it is to be written now, which
// Delay then takes for done. An urgent change never waits.
func (t *StatusThrottle) Delay(object types.UID, urgent bool, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetExpired(now)
	if last, found := t.last[object]; found && !urgent {
		if wait := last.at.Add(StatusInterval).Sub(now); wait > 0 {
			return wait
		}
	}
	t.last[object] = write{at: now}
	return 0
}

// BackoffDelay is Delay for counts that keep changing for long, as in a rollout: the interval doubles from each write to the next,
// from the first to the longest of bounds, which is at most LongestStatusInterval. When an interval has passed without a change, the
// next one is written at once and the first interval holds again.
func (t *StatusThrottle) BackoffDelay(object types.UID, urgent bool, bounds StatusBounds, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetExpired(now)
	last, found := t.last[object]
	next := write{at: now, interval: bounds.First}
	switch {
	case !found || now.Sub(last.at) >= 2*last.interval:
	case urgent:
		next.interval = last.interval
	case now.Sub(last.at) < last.interval:
		return last.at.Add(last.interval).Sub(now)
	default:
		next.interval = min(2*last.interval, bounds.Longest)
	}
	t.last[object] = next
	return 0
}

// forgetExpired drops what says nothing any more.
func (t *StatusThrottle) forgetExpired(now time.Time) {
	if t.last == nil {
		t.last = map[types.UID]write{}
	}
	maps.DeleteFunc(t.last, func(_ types.UID, last write) bool { return now.Sub(last.at) >= 2*LongestStatusInterval })
}
