package freeze

import (
	"strings"
	"time"
)

// maxHandedOn bounds what is handed on. Beyond it the two oldest become one.
const maxHandedOn = 8

// Interval is a span of time.
type Interval struct{ From, To time.Time }

// Uptime is when agents of the cluster could act, in order. An agent hands its own on to the next one of the cluster, with
// what it was handed itself: else each restart in the middle of a drain would begin its deadline anew.
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

// until cuts s so that no two of them overlap and none is later than now, whatever another clock has written.
func (s Uptime) until(now time.Time) Uptime {
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

// within is how much of the time from a to b is in s, whose parts do not overlap.
func (s Uptime) within(a, b time.Time) time.Duration {
	var sum time.Duration
	for _, interval := range s {
		sum += overlap(interval.From, interval.To, a, b)
	}
	return sum
}

// remember takes in when others acted before this process did. Once it has thawed it knows better.
func (l *downtime) remember(intervals Uptime, now time.Time) {
	if l.thaws == 0 {
		l.others = intervals.until(now.Round(0))
	}
}

// uptimeUntil are those of others and of this process.
func (l *downtime) uptimeUntil(now time.Time) Uptime {
	intervals := l.others
	for i, frozen := range l.intervals {
		end := now.Round(0)
		if i+1 < len(l.intervals) {
			end = l.intervals[i+1].From
		} else if !l.open.IsZero() {
			end = l.open
		}
		if frozen.To.Before(end) {
			intervals = append(intervals[:len(intervals):len(intervals)], Interval{From: frozen.To, To: end})
		}
	}
	return intervals.joined()
}

// joined makes one of the oldest if there are too many. It is as long as all of them and begins with the first: a deadline
// may come later for it and never sooner, and it comes however often an agent is restarted.
func (s Uptime) joined() Uptime {
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
	m.downtime.remember(intervals, m.options.Clock.Now())
}

// Uptime returns when agents of the cluster could act, this one included.
func (m *Monitor) Uptime() Uptime {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.options.Clock.Now()
	m.state(now)
	return m.downtime.uptimeUntil(now)
}
