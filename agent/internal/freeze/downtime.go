package freeze

import (
	"strings"
	"time"
)

// maxIntervals bounds the memory of a downtime. Beyond it the two oldest freezes become one, with the time between
// them: a deadline may come later for it and never sooner.
const maxIntervals = 256

// Downtime tells how long nothing could be done.
type Downtime interface {
	// FrozenSince returns how much of the time since t does not count, because the agent was frozen, or none of the
	// cluster's agents ran that could act.
	FrozenSince(t time.Time) time.Duration
}

// downtime is the memory of freezes. It is pure: the time is always given. What was before it started counts as
// frozen, except for the times in which other agents are known to have acted: one that comes back after hours must
// not find every deadline passed.
//
// It counts by the wall clock, as the times do that are on the hub: the monotonic clock stands still while the
// machine is suspended.
type downtime struct {
	intervals []Interval
	// others is when others acted, before this process did.
	others Uptime
	// open is when the freeze that continues started; zero while thawed.
	open time.Time
	// thaws counts the freezes that have ended.
	thaws uint64
}

// newDowntime starts with the time before now as one freeze that continues.
func newDowntime(now time.Time) downtime {
	now = now.Round(0)
	return downtime{open: now, intervals: []Interval{{To: now}}}
}

// recordState takes in what holds at now: frozen since a time, or thawed.
func (d *downtime) recordState(frozen bool, since, now time.Time) {
	since, now = since.Round(0), now.Round(0)
	switch {
	case frozen && d.open.IsZero():
		if last := d.intervals[len(d.intervals)-1].To; since.Before(last) {
			since = last
		}
		d.open = since
	case !frozen && !d.open.IsZero():
		d.intervals = append(d.intervals, Interval{From: d.open, To: now})
		d.open = time.Time{}
		d.thaws++
		if len(d.intervals) > maxIntervals {
			d.intervals[1].From = d.intervals[0].From
			d.intervals = d.intervals[1:]
		}
	}
}

// frozenSince returns how much of the time from t to now is frozen.
func (d *downtime) frozenSince(t, now time.Time) time.Duration {
	t, now = t.Round(0), now.Round(0)
	var sum time.Duration
	for _, i := range d.intervals {
		sum += d.lostTime(i.From, i.To, t, now)
	}
	if !d.open.IsZero() {
		sum += d.lostTime(d.open, now, t, now)
	}
	return sum
}

// lostTime is how long the overlap of [from, to] and [start, end] lasts, without the times in which others acted.
func (d *downtime) lostTime(from, to, begin, end time.Time) time.Duration {
	from, to = overlapOf(from, to, begin, end)
	return max(to.Sub(from)-d.others.timeWithin(from, to), 0)
}

// lastThaw returns how many freezes have ended, and when the last one did; zero before the first.
func (d *downtime) lastThaw() (number uint64, at time.Time) {
	if d.thaws == 0 {
		return 0, time.Time{}
	}
	return d.thaws, d.intervals[len(d.intervals)-1].To
}

// lastFreeze is how long the last freeze was that has ended.
func (d *downtime) lastFreeze() time.Duration {
	if d.thaws == 0 {
		return 0
	}
	i := d.intervals[len(d.intervals)-1]
	return i.To.Sub(i.From)
}

// overlapOf is the overlap of [a, b] and [c, d]; it ends before it starts if there is none.
func overlapOf(a, b, c, d time.Time) (from, to time.Time) {
	if c.After(a) {
		a = c
	}
	if d.Before(b) {
		b = d
	}
	return a, b
}

// FrozenSince implements Downtime.
func (m *Monitor) FrozenSince(t time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock.Now()
	m.refreshAt(now)
	return m.downtime.frozenSince(t, now)
}

// maxHandedOn bounds what is handed on. Beyond it the two oldest become one.
const maxHandedOn = 8

// Interval is a span of time.
type Interval struct{ From, To time.Time }

// Uptime is when agents of the cluster could act, in order. An agent hands its own on to the next one of the cluster, with
// what it was handed itself: else each restart in the middle of a drain would start its deadline again.
type Uptime []Interval

// String writes s as ParseUptime reads it.
func (s Uptime) String() string {
	var words []string
	for _, interval := range s {
		words = append(words, interval.From.UTC().Format(time.RFC3339)+"/"+interval.To.UTC().Format(time.RFC3339))
	}
	return strings.Join(words, ",")
}

// ParseUptime reads what String wrote. What cannot be read is left out: it counts as frozen.
func ParseUptime(text string) Uptime {
	var intervals Uptime
	for word := range strings.SplitSeq(text, ",") {
		from, to, _ := strings.Cut(word, "/")
		begin, errFrom := time.Parse(time.RFC3339, from)
		end, errTo := time.Parse(time.RFC3339, to)
		if errFrom == nil && errTo == nil {
			intervals = append(intervals, Interval{From: begin, To: end})
		}
	}
	return intervals
}

// cutAt cuts s so that no two of them overlap and none is later than now, whatever another clock has written.
func (s Uptime) cutAt(now time.Time) Uptime {
	var cut Uptime
	var last time.Time
	for _, interval := range s {
		if interval.From.Before(last) {
			interval.From = last
		}
		if interval.To.After(now) {
			interval.To = now
		}
		if interval.From.Before(interval.To) {
			cut, last = append(cut, interval), interval.To
		}
	}
	return cut
}

// timeWithin is how much of the time from a to b is in s, whose parts do not overlap.
func (s Uptime) timeWithin(a, b time.Time) time.Duration {
	var sum time.Duration
	for _, interval := range s {
		from, to := overlapOf(interval.From, interval.To, a, b)
		sum += max(to.Sub(from), 0)
	}
	return sum
}

// rememberUptime takes in when others acted before this process did. Once it has thawed it knows better.
func (d *downtime) rememberUptime(intervals Uptime, now time.Time) {
	if d.thaws == 0 {
		d.others = intervals.cutAt(now.Round(0))
	}
}

// uptimeUntil are those of others and of this process.
func (d *downtime) uptimeUntil(now time.Time) Uptime {
	intervals := d.others
	for i, frozen := range d.intervals {
		end := now.Round(0)
		if i+1 < len(d.intervals) {
			end = d.intervals[i+1].From
		} else if !d.open.IsZero() {
			end = d.open
		}
		if frozen.To.Before(end) {
			intervals = append(intervals[:len(intervals):len(intervals)], Interval{From: frozen.To, To: end})
		}
	}
	return intervals.joinOldest()
}

// joinOldest makes one of the oldest if there are too many. It is as long as all of them and starts with the first: a deadline
// may come later for it and never sooner, and it comes however often an agent is restarted.
func (s Uptime) joinOldest() Uptime {
	surplus := len(s) - maxHandedOn
	if surplus <= 0 {
		return s
	}
	oldest := s[0]
	for _, interval := range s[1 : surplus+1] {
		oldest.To = oldest.To.Add(interval.To.Sub(interval.From))
	}
	return append(Uptime{oldest}, s[surplus+1:]...)
}

// Remember takes in when other agents of the cluster could act, before this one has thawed for the first time.
func (m *Monitor) Remember(intervals Uptime) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.downtime.rememberUptime(intervals, m.options.Clock.Now())
}

// Uptime returns when agents of the cluster could act, this one included.
func (m *Monitor) Uptime() Uptime {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock.Now()
	m.refreshAt(now)
	return m.downtime.uptimeUntil(now)
}
