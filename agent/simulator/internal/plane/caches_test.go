package plane_test

import (
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
)

// Claim: Watch caches of a process wake up together, about as often as by themselves. Broken: moments of their own; other waits changed.
func TestWatchCachesWakeUpTogether(t *testing.T) {
	for _, c := range []struct{ now, wait, want time.Duration }{
		{0, 750 * time.Millisecond, time.Second}, {0, 1250 * time.Millisecond, time.Second}, {10 * time.Millisecond, time.Second, 990 * time.Millisecond},
		{400 * time.Millisecond, 750 * time.Millisecond, 600 * time.Millisecond}, {800 * time.Millisecond, 750 * time.Millisecond, 1200 * time.Millisecond},
		{300 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond}, {300 * time.Millisecond, 3 * time.Second, 3 * time.Second},
	} {
		if got := plane.AlignWait(c.now, c.wait); got != c.want {
			t.Errorf("%s after %s: %s, want %s", c.wait, c.now, got, c.want)
		}
	}
}
