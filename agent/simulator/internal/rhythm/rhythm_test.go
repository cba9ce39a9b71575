package rhythm

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
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

// Claim: A timer that is set again ends at a moment of its period, however long the work before took. Broken: the timer set for a whole period.
func TestATimerIsSetForTheNextMoment(t *testing.T) {
	const period = 2 * time.Second
	fake := clocktesting.NewFakeClock(began.Add(10*period + period/4))
	timer := Clock{fake}.NewTimer(10 * period)
	timer.Reset(period)
	fake.Step(period/2 + period/4 - 1)
	select {
	case <-timer.C():
		t.Fatal("it ended before the moment")
	default:
	}
	fake.Step(1)
	select {
	case <-timer.C():
	default:
		t.Fatal("it did not end at the moment")
	}
}
