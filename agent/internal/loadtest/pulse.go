package loadtest

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// pulsePeriod is how often the agent looks at its clock, and longestPulse how long it may take until it does so again.
	pulsePeriod, longestPulse = 100 * time.Millisecond, time.Second
)

// pulse notices that this process stood still: because it was stopped, got no processor, or collected garbage.
type pulse struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	last    time.Time
	stalls  int32
	longest time.Duration
}

// checkClock looks at the clock.
func (p *pulse) checkClock() {
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if gap := now.Sub(p.last); !p.last.IsZero() && gap > longestPulse {
		p.stalls++
		p.longest = max(p.longest, gap)
	}
	p.last = now
}

// countStalls is how many times the process stood still, and for how long at most.
func (p *pulse) countStalls() (stalls int32, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalls, p.longest
}

// watchClock beats until ctx ends.
func (p *pulse) watchClock(ctx context.Context, deps Deps) {
	p.checkClock()
	for sleepFor(ctx, deps, pulsePeriod) == nil {
		p.checkClock()
	}
	p.checkClock()
}
