package freeze

import "time"

// maxIntervals bounds a ledger's memory. Beyond it the two oldest freezes become one, with the time between
// them: a deadline may come later for it and never sooner.
const maxIntervals = 256

// Ledger tells how long nothing could be done.
type Ledger interface {
	// FrozenSince returns how much of the time since t does not count, because the agent was frozen or did
	// not run yet.
	FrozenSince(t time.Time) time.Duration
}

// ledger is the memory of freezes. It is pure: the time is always given. What was before it began counts as
// frozen: nobody remembers whether it was, and an agent that comes back after hours must not find every
// deadline passed.
type ledger struct {
	intervals []interval
	// open is when the freeze that goes on began; zero while thawed.
	open time.Time
}

type interval struct{ from, to time.Time }

// newLedger begins with the time before now as one freeze that goes on.
func newLedger(now time.Time) ledger { return ledger{open: now, intervals: []interval{{to: now}}} }

// note takes in what holds at now: frozen since a time, or thawed.
func (l *ledger) note(frozen bool, since, now time.Time) {
	switch {
	case frozen && l.open.IsZero():
		if last := l.intervals[len(l.intervals)-1].to; since.Before(last) {
			since = last
		}
		l.open = since
	case !frozen && !l.open.IsZero():
		l.intervals = append(l.intervals, interval{from: l.open, to: now})
		l.open = time.Time{}
		if len(l.intervals) > maxIntervals {
			l.intervals[1].from = l.intervals[0].from
			l.intervals = l.intervals[1:]
		}
	}
}

// frozenSince returns how much of the time from t to now is frozen.
func (l *ledger) frozenSince(t, now time.Time) time.Duration {
	var sum time.Duration
	for _, i := range l.intervals {
		sum += overlap(i.from, i.to, t, now)
	}
	if !l.open.IsZero() {
		sum += overlap(l.open, now, t, now)
	}
	return sum
}

// overlap is how long both [a, b] and [c, d] last.
func overlap(a, b, c, d time.Time) time.Duration {
	if c.After(a) {
		a = c
	}
	if d.Before(b) {
		b = d
	}
	return max(b.Sub(a), 0)
}

// FrozenSince implements Ledger.
func (m *Monitor) FrozenSince(t time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock.Now()
	m.state(now)
	return m.ledger.frozenSince(t, now)
}
