package freeze

import (
	"testing"
	"time"
)

// The annotation of a Lease can be edited by users of the hub.
func FuzzUptime(f *testing.F) {
	for _, seed := range []string{
		"", "2026-01-01T00:00:00Z/2026-01-01T01:00:00Z", "2026-01-01T00:00:00Z/2026-01-01T01:00:00Z,2026-01-01T02:00:00Z/2026-01-01T03:00:00Z",
		"2026-01-01T03:00:00Z/2026-01-01T01:00:00Z", "/,/", "9999-12-31T23:59:59Z/9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z/2026-01-01T00:00:00+23:59",
	} {
		f.Add(seed)
	}
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		intervals := ParseUptime(text).cutAt(now)
		if joined := intervals.joinOldest(); len(joined) > maxHandedOn {
			t.Errorf("%q: %d intervals are handed on", text, len(joined))
		}
		var last time.Time
		for _, interval := range intervals {
			if interval.From.Before(last) || !interval.From.Before(interval.To) || interval.To.After(now) {
				t.Errorf("%q: %s follows %s", text, interval, last)
			}
			last = interval.To
		}
	})
}

// What is handed on once more would otherwise cost the square of its length.
// Edge case: Lease annotations cost quadratic time.
func TestUptimeIsJoinedInOnePass(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var many Uptime
	for i := range 1000 {
		at := begin.Add(time.Duration(i) * time.Hour)
		many = append(many, Interval{From: at, To: at.Add(time.Minute)})
	}
	joined := many.joinOldest()
	if len(joined) != maxHandedOn || !joined[0].From.Equal(begin) || joined[0].To.Sub(begin) != (1000-maxHandedOn+1)*time.Minute {
		t.Errorf("got %v", joined)
	}
	if allocations := testing.AllocsPerRun(1, func() { many.joinOldest() }); allocations > 2 {
		t.Errorf("%v allocations for 1000 intervals, want 2 or fewer", allocations)
	}
}
