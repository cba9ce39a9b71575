package rhythm

import (
	"testing"
	"time"
)

func TestWorkOfAPeriodFallsOnTheSameMoments(t *testing.T) {
	const period = 2 * time.Second
	for _, after := range []time.Duration{-3 * time.Second, -period, -1, 0, 1, time.Second, period - 1, period, time.Hour + 1} {
		now := began.Add(after)
		wait := Until(now, period)
		if wait <= 0 || wait > period {
			t.Errorf("%s after the start: %s, want up to %s", after, wait, period)
		}
		if next := now.Add(wait).Sub(began); next%period != 0 {
			t.Errorf("%s after the start: the next moment is %s after it", after, next)
		}
	}
}
