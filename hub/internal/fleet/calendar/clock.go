package calendar

import "time"

// Wall-clock times are kept as times in UTC with the same numbers.

// period is a time with one offset from UTC.
type period struct {
	start, end time.Time // zero: none
	offset     time.Duration
}

// clock has the offsets of a zone around a date.
type clock []period

// margin is more than the largest difference between a wall clock and UTC.
const margin = 48 * time.Hour

// newClock reads the offsets of a zone around a date.
func newClock(zone *time.Location, date time.Time) clock {
	var all clock
	for at := date.Add(-margin).In(zone); ; {
		start, end := at.ZoneBounds()
		_, offset := at.Zone()
		all = append(all, period{start, end, time.Duration(offset) * time.Second})
		if end.IsZero() || end.After(date.Add(24*time.Hour+margin)) {
			return all
		}
		at = end.In(zone)
	}
}

// momentsAt are the moments at which the clock shows a time: none, one or two.
func (c clock) momentsAt(wall time.Time) []time.Time {
	var moments []time.Time
	for _, p := range c {
		at := wall.Add(-p.offset)
		if !at.Before(p.start) && (p.end.IsZero() || at.Before(p.end)) {
			moments = append(moments, at)
		}
	}
	return moments
}

// afterGap is the moment at which the clock goes forward over a time.
func (c clock) afterGap(wall time.Time) time.Time {
	for _, p := range c {
		if p.end.IsZero() || wall.Before(p.end.Add(p.offset)) {
			return p.start
		}
	}
	return wall
}

// dateOf is the date of a local time, as a wall-clock time at midnight.
func dateOf(local time.Time) time.Time {
	year, month, day := local.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
