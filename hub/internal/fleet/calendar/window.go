package calendar

import "time"

// Window is open for a time from each opening on, but not in its exclusions. The time is one that passes: it does not change with
// the clocks.
type Window struct {
	// Schedule is nil for a window that only its exclusions close.
	Schedule *Schedule
	Duration time.Duration
	Excluded []Span
}

// IsOpen reports whether it is open at a moment.
func (w *Window) IsOpen(at time.Time) bool {
	if SkipSpans(at, w.Excluded).After(at) {
		return false
	}
	return w.Schedule == nil || !w.Schedule.Last(at, at.Add(1-w.Duration)).IsZero()
}

// OpensAt is the first moment after one at which it opens, which may be the end of an exclusion; zero if there is none.
func (w *Window) OpensAt(after time.Time) time.Time {
	if end := SkipSpans(after, w.Excluded); end.After(after) && w.IsOpen(end) {
		return end // It opened in the exclusion, or before it.
	}
	if w.Schedule == nil {
		return time.Time{}
	}
	for range len(w.Excluded) + 1 { // Each turn leaves one of them behind.
		opening := w.Schedule.Next(after)
		if opening.IsZero() {
			break
		}
		at := SkipSpans(opening, w.Excluded)
		if at.Sub(opening) < w.Duration {
			return at
		}
		after = at.Add(-w.Duration)
	}
	return time.Time{}
}
