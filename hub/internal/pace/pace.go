// Package pace spaces out status writes whose only news are counts.
package pace

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Interval is the least time between two writes of one object's counts.
const Interval = 5 * time.Second

// Pacer remembers when each object's status was last written. The zero value is ready for use.
type Pacer struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// Wait returns how long a changed status of object has to wait; 0 means that it is to be written now, which
// Wait then takes for done. An urgent change never waits.
func (p *Pacer) Wait(object types.UID, urgent bool, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, at := range p.last {
		if now.Sub(at) >= Interval {
			delete(p.last, uid)
		}
	}
	if at, found := p.last[object]; found && !urgent {
		return at.Add(Interval).Sub(now)
	}
	if p.last == nil {
		p.last = map[types.UID]time.Time{}
	}
	p.last[object] = now
	return 0
}
