package rhythm

import (
	"time"

	"k8s.io/utils/clock"
)

// Clock is a clock whose timers, when they are set again, end at the next moment for work of that period.
type Clock struct{ clock.Clock }

// NewTimer returns a timer that ends after d the first time.
func (c Clock) NewTimer(d time.Duration) clock.Timer { return timer{c.Clock.NewTimer(d), c.Clock} }

type timer struct {
	clock.Timer
	clock clock.Clock
}

// Reset lets the timer end at the next moment for work of that period.
func (t timer) Reset(period time.Duration) bool {
	return t.Timer.Reset(Until(t.clock.Now(), period))
}
