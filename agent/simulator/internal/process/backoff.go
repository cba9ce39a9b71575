package process

import "time"

const (
	firstDelay = time.Second
	// maxDelay bounds the wait before a restart.
	maxDelay = 10 * time.Second
	// steadyAfter is how long a component must have been healthy for its next
	// restart to start again with the shortest delay.
	steadyAfter = 30 * time.Second
)

// backoff counts the restarts in a row and knows how long to wait before the
// next one: 1 s, 2 s, 4 s, 8 s, then always 10 s.
type backoff struct {
	failures int
}

// nextDelay tells how long to wait after a run that was healthy for the given time
// (zero if it never was).
func (b *backoff) nextDelay(healthyFor time.Duration) time.Duration {
	if healthyFor >= steadyAfter {
		b.failures = 0
	}
	b.failures++
	delay := firstDelay
	for range b.failures - 1 {
		if delay *= 2; delay >= maxDelay {
			return maxDelay
		}
	}
	return delay
}
