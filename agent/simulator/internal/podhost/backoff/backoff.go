// Package backoff computes how long a container that ended waits for its
// restart, as the kubelet does: the first restart is immediate, the following
// ones wait twice as long each time, and a container that ran long enough
// starts over.
package backoff

import "time"

// Policy is the kubelet's unless set otherwise.
type Policy struct {
	// Initial is the delay of the second restart. The default is 10 s.
	Initial time.Duration
	// Max is the longest delay. The default is 5 minutes. A container that
	// ran for twice as long starts over.
	Max time.Duration
}

// WithDefaults fills in the kubelet's values.
func (p Policy) WithDefaults() Policy {
	if p.Initial == 0 {
		p.Initial = 10 * time.Second
	}
	if p.Max == 0 {
		p.Max = 5 * time.Minute
	}
	return p
}

// Backoff counts the restarts of one container.
type Backoff struct {
	Policy  Policy
	started bool
	delay   time.Duration
}

// Next returns the delay before the next restart of a container that ran for
// the given time.
func (b *Backoff) Next(ran time.Duration) time.Duration {
	if !b.started || ran > 2*b.Policy.Max {
		b.started, b.delay = true, 0
		return 0
	}
	b.delay = min(max(2*b.delay, b.Policy.Initial), b.Policy.Max)
	return b.delay
}
