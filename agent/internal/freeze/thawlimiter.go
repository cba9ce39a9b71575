package freeze

import (
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// ThawLimiterOptions are those of a ThawLimiter. All are required.
type ThawLimiterOptions struct {
	// PerMinute is how many Machines are taken apart within any minute while the limit holds, which is for Period
	// after each thaw.
	PerMinute int
	Period    time.Duration
	Thaws     Thaws
	Clock     clock.PassiveClock
	Metrics   *Metrics
}

// Thaws are a Monitor's.
type Thaws interface {
	// Thaw returns the number and time of the last one.
	Thaw() (number uint64, at time.Time)
	// Downtime tells which times do not count.
	Downtime
}

// ThawLimiter limits how many Machines are taken apart after a thaw, whatever orders that: if it is a mistake, a user can
// still see it and freeze the cluster by hand. At other times it limits nothing, and never the Machines that were made
// since the thaw: nothing has happened to those behind the agent's back. What was let through is remembered over thaws,
// so that flapping lets no more through, and not over the end of the process.
type ThawLimiter struct {
	ThawLimiterOptions
	mu sync.Mutex
	// let is when Machines were let through within the last minute. places is when those that ask may expect to be,
	// so that each comes back once and not all of them at every chance; they belong to the thaw of that number.
	let, places []time.Time
	thaw        uint64
	turns       map[types.UID]turn
}

// turn is what is remembered of a Machine.
type turn struct {
	// thaw is the one for which it has a place, at a time; let is the one after which it was let through or made.
	thaw, let uint64
	at        time.Time
	// asked is when it started to wait, zero when it does not; waited is how long it has before that.
	asked  time.Time
	waited time.Duration
}

// NewThawLimiter returns a ThawLimiter.
func NewThawLimiter(options ThawLimiterOptions) (*ThawLimiter, error) {
	if options.PerMinute < 1 || options.Period <= 0 || options.Thaws == nil || options.Clock == nil || options.Metrics == nil {
		return nil, errors.New("freeze.ThawLimiterOptions: PerMinute, Period, Thaws, Clock and Metrics are required")
	}
	return &ThawLimiter{ThawLimiterOptions: options, turns: map[types.UID]turn{}}, nil
}

// Take is asked before the first step that takes something from a Machine. It returns how long that has to wait,
// 0 when it may be done, and how much of the past this Machine has waited, which counts for none of its deadlines.
// Once let through, a Machine need not wait again before the next thaw.
func (l *ThawLimiter) Take(machine types.UID) (wait, waited time.Duration) {
	number, at := l.Thaws.Thaw()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Clock.Now()
	mine, known := l.turns[machine]
	if left := l.Period - Passed(at, now); number > 0 && left > 0 {
		wait = min(l.admitTurn(&mine, number, now), left)
		known = true
	}
	if wait == 0 && !mine.asked.IsZero() {
		mine.waited, mine.asked = mine.waited+l.unfrozenTime(mine.asked, now), time.Time{}
	}
	if known {
		l.turns[machine] = mine
	}
	waited = mine.waited
	if !mine.asked.IsZero() {
		waited += l.unfrozenTime(mine.asked, now)
	}
	return wait, waited
}

// Created is told of a Machine whose first instance is made now. It need not wait before the next thaw.
func (l *ThawLimiter) Created(machine types.UID) {
	number, at := l.Thaws.Thaw()
	l.mu.Lock()
	defer l.mu.Unlock()
	if Passed(at, l.Clock.Now()) >= l.Period {
		return
	}
	mine := l.turns[machine]
	mine.let = number
	l.turns[machine] = mine
}

// admitTurn lets a Machine through after a thaw, or says how long it has to wait.
func (l *ThawLimiter) admitTurn(mine *turn, thaw uint64, now time.Time) (wait time.Duration) {
	if mine.let == thaw {
		return 0
	}
	if mine.thaw != thaw {
		l.placeTurn(mine, thaw, now)
	}
	l.let = lastMinute(l.let, now)
	if wait = mine.at.Sub(now); wait <= 0 {
		// Others may have come too late for their places.
		wait = l.nextSlot(l.let, now).Sub(now)
	}
	if wait <= 0 {
		l.let, mine.let = append(l.let, now), thaw
		return 0
	}
	if mine.asked.IsZero() {
		mine.asked = now
		l.Metrics.limited.Inc()
	}
	return wait
}

// placeTurn tells a Machine when it may expect to be let through.
func (l *ThawLimiter) placeTurn(mine *turn, thaw uint64, now time.Time) {
	if l.thaw != thaw {
		// Who has not been let through yet asks again.
		l.thaw, l.places = thaw, slices.Clone(lastMinute(l.let, now))
	}
	l.places = lastMinute(l.places, now)
	mine.thaw, mine.at = thaw, l.nextSlot(l.places, now)
	l.places = append(l.places, mine.at)
}

// nextSlot is when one more may follow on times, which are in order.
func (l *ThawLimiter) nextSlot(times []time.Time, now time.Time) time.Time {
	if before := len(times) - l.PerMinute; before >= 0 {
		return times[before].Add(time.Minute)
	}
	return now
}

// lastMinute leaves out of times what is more than a minute ago.
func lastMinute(times []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(times, func(at time.Time) bool { return Passed(at, now) >= time.Minute })
}

// unfrozenTime is the time since a Machine asked that was not frozen.
func (l *ThawLimiter) unfrozenTime(asked, now time.Time) time.Duration {
	return max(Passed(asked, now)-l.Thaws.FrozenSince(asked), 0)
}

// Forget forgets a Machine that is gone.
func (l *ThawLimiter) Forget(machine types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.turns, machine)
}
