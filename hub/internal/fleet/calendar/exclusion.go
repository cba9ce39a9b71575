package calendar

import (
	"errors"
	"fmt"
	"time"
)

// Span is a time in which no window is open.
type Span struct{ Start, End time.Time }

// Covers reports whether a moment is in it. Its end is not.
func (s Span) Covers(at time.Time) bool { return !at.Before(s.Start) && at.Before(s.End) }

// ErrEnd is wrapped by what ParseSpan says of an end.
var ErrEnd = errors.New("its end cannot be used")

// The forms of the start and of the end of a span: a date, or a date with a time of day.
const dateForm, timeForm = "2006-01-02", "2006-01-02T15:04"

// ParseSpan reads a start and an end by the wall clock of a zone. A date alone is that whole day, so the end may be the same date.
// Where a time exists twice, the span has both.
func ParseSpan(start, end string, zone *time.Location) (Span, error) {
	from, _, err := readWall(start)
	if err != nil {
		return Span{}, err
	}
	to, whole, err := readWall(end)
	if err != nil {
		return Span{}, fmt.Errorf("%w: %w", ErrEnd, err)
	}
	if whole {
		to = to.AddDate(0, 0, 1)
	}
	if !to.After(from) {
		return Span{}, fmt.Errorf("%w: %s is not after its start, %s", ErrEnd, end, start)
	}
	first, last := momentsIn(zone, from), momentsIn(zone, to)
	return Span{first[0], last[len(last)-1]}, nil
}

func readWall(text string) (wall time.Time, wholeDay bool, err error) {
	if wall, err = time.Parse(dateForm, text); err == nil {
		return wall, true, nil
	}
	if wall, err = time.Parse(timeForm, text); err == nil {
		return wall, false, nil
	}
	return time.Time{}, false, fmt.Errorf("%q is neither a date such as 2026-12-20 nor a date with a time such as 2026-12-20T18:00", text)
}

// momentsIn are those at which the clock of a zone shows a time, or the one at which it goes forward over it.
func momentsIn(zone *time.Location, wall time.Time) []time.Time {
	clock := newClock(zone, dateOf(wall))
	if at := clock.momentsAt(wall); len(at) > 0 {
		return at
	}
	return []time.Time{clock.afterGap(wall)}
}

// SkipSpans is the first moment from one on that no span covers.
func SkipSpans(at time.Time, spans []Span) time.Time {
	for moved := true; moved; {
		moved = false
		for _, span := range spans {
			if span.Covers(at) {
				at, moved = span.End, true
			}
		}
	}
	return at
}
