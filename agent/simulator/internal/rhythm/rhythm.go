// Package rhythm lets periodic work of all nodes of a process fall on the same moments. Each wake-up of an idle process costs more than
// the work that is waiting for it.
package rhythm

import (
	"context"
	"time"
)

// began is where the periods of this process start. They are not those of the wall clock, so that the processes of a machine differ.
var began = time.Now()

// Until returns how long it is from now to the next moment for work of a period: more than nothing, and no longer than the period.
func Until(now time.Time, period time.Duration) time.Duration {
	since := now.Sub(began) % period
	if since < 0 {
		since += period
	}
	return period - since
}

// passed is how long after a moment work still counts as done at it.
const passed = 50 * time.Millisecond

// Await waits for the next moment for work of a period, unless one has just passed or ctx ends. It is for work whose own timer cannot be set.
func Await(ctx context.Context, period time.Duration) {
	wait := Until(time.Now(), period)
	if period-wait < passed {
		return
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}
