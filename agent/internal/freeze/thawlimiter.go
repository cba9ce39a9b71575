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
	// Thaw tells the number and time of the last thaw, and Ledger which times do not count.
	Thaw     func() (number uint64, at time.Time)
	Downtime Downtime
	Clock    clock.PassiveClock
	Metrics  *Metrics
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
	// asked is when it began to wait, zero when it does not; waited is how long it has before that.
	asked  time.Time
	waited time.Duration
}

// NewThawLimiter returns a ThawLimiter.
func NewThawLimiter(options ThawLimiterOptions) (*ThawLimiter, error) {
	if options.PerMinute < 1 || options.Period <= 0 || options.Thaw == nil || options.Downtime == nil || options.Clock == nil || options.Metrics == nil {
		return nil, errors.New("a pace needs a number, a period, the thaws, a ledger, a clock and metrics")
	}
	return &ThawLimiter{ThawLimiterOptions: options, turns: map[types.UID]turn{}}, nil
}

// Take is asked before the first step that takes something from a Machine. It returns how long that has to wait,
// 0 when it may be done, and how much of the past this Machine has waited, which counts for none of its deadlines.
// Once let through, a Machine need not wait again before the next thaw.
func (p *ThawLimiter) Take(machine types.UID) (wait, waited time.Duration) {
	number, at := p.Thaw()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Clock.Now()
	mine, known := p.turns[machine]
	if left := p.Period - Passed(at, now); number > 0 && left > 0 {
		wait = min(p.limit(&mine, number, now), left)
		known = true
	}
	if wait == 0 && !mine.asked.IsZero() {
		mine.waited, mine.asked = mine.waited+p.counted(mine.asked, now), time.Time{}
	}
	if known {
		p.turns[machine] = mine
	}
	waited = mine.waited
	if !mine.asked.IsZero() {
		waited += p.counted(mine.asked, now)
	}
	return wait, waited
}

// Created is told of a Machine whose first instance is made now. It need not wait before the next thaw.
func (p *ThawLimiter) Created(machine types.UID) {
	number, at := p.Thaw()
	p.mu.Lock()
	defer p.mu.Unlock()
	if Passed(at, p.Clock.Now()) >= p.Period {
		return
	}
	mine := p.turns[machine]
	mine.let = number
	p.turns[machine] = mine
}

// limit lets a Machine through after a thaw, or says how long it has to wait.
func (p *ThawLimiter) limit(mine *turn, thaw uint64, now time.Time) (wait time.Duration) {
	if mine.let == thaw {
		return 0
	}
	if mine.thaw != thaw {
		p.place(mine, thaw, now)
	}
	p.let = lastMinute(p.let, now)
	if wait = mine.at.Sub(now); wait <= 0 {
		// Others may have come too late for their places.
		wait = p.next(p.let, now).Sub(now)
	}
	if wait <= 0 {
		p.let, mine.let = append(p.let, now), thaw
		return 0
	}
	if mine.asked.IsZero() {
		mine.asked = now
		p.Metrics.limited.Inc()
	}
	return wait
}

// place tells a Machine when it may expect to be let through.
func (p *ThawLimiter) place(mine *turn, thaw uint64, now time.Time) {
	if p.thaw != thaw {
		// Who has not been let through yet asks again.
		p.thaw, p.places = thaw, slices.Clone(lastMinute(p.let, now))
	}
	p.places = lastMinute(p.places, now)
	mine.thaw, mine.at = thaw, p.next(p.places, now)
	p.places = append(p.places, mine.at)
}

// next is when one more may follow on times, which are in order.
func (p *ThawLimiter) next(times []time.Time, now time.Time) time.Time {
	if before := len(times) - p.PerMinute; before >= 0 {
		return times[before].Add(time.Minute)
	}
	return now
}

// lastMinute leaves out of times what is more than a minute ago.
func lastMinute(times []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(times, func(at time.Time) bool { return Passed(at, now) >= time.Minute })
}

// counted is the time since a Machine asked that was not frozen.
func (p *ThawLimiter) counted(asked, now time.Time) time.Duration {
	return max(Passed(asked, now)-p.Downtime.FrozenSince(asked), 0)
}

// Forget forgets a Machine that is gone.
func (p *ThawLimiter) Forget(machine types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.turns, machine)
}
