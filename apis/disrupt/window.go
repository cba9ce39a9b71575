package disrupt

import (
	"iter"
	"math"
	"time"
)

// Window is a time in which a fault is there.
type Window struct {
	// Index counts the windows of an entry, from 0.
	Index int64
	// Start belongs to the window, End does not. End is zero for a window that lasts for good, which no entry of a plan has.
	Start, End time.Time
}

// Contains reports whether a time is within the window.
func (w Window) Contains(t time.Time) bool {
	return !t.Before(w.Start) && (w.End.IsZero() || t.Before(w.End))
}

// Active is a fault that is there.
type Active struct {
	Entry  *Entry
	Window Window
	// Ready is true while a Flap, which is in its window, lets the node be well.
	Ready bool
}

// At returns which of the entries are within a window on a node, in their order, and when this changes next; zero if it
// does not change any more. It depends on nothing but its arguments, so that agent and node agree, and a node that is
// restarted continues with what it did.
func At(entries []Entry, node string, now time.Time) (active []Active, next time.Time) {
	for i := range entries {
		e := &entries[i]
		window, within, change := e.At(node, now)
		if within {
			one := Active{Entry: e, Window: window}
			if e.Fault.Type == Flap && e.Fault.Flap != nil {
				var flips time.Time
				one.Ready, flips = e.Fault.Flap.stateAt(now, window)
				change = earlierOf(change, flips)
			}
			active = append(active, one)
		}
		next = earlierOf(next, change)
	}
	return active, next
}

// At returns the window that now is within, if there is one, and when this changes next; zero if it does not.
func (e *Entry) At(node string, now time.Time) (window Window, within bool, next time.Time) {
	index := e.currentSlot(now)
	if current, ok := e.windowAt(node, index); ok {
		switch {
		case current.Contains(now):
			return current, true, current.End
		case now.Before(current.Start):
			return Window{}, false, current.Start
		}
	}
	if following, ok := e.windowAt(node, index+1); ok {
		return Window{}, false, following.Start
	}
	return Window{}, false, time.Time{}
}

// Windows are all windows of an entry on a node, in their order. They are as many as MaxRepeat at most, or without end if the
// entry has none.
func (e *Entry) Windows(node string) iter.Seq[Window] {
	return func(yield func(Window) bool) {
		for index := int64(0); ; index++ {
			window, ok := e.windowAt(node, index)
			if !ok || !yield(window) {
				return
			}
		}
	}
}

// currentSlot is the last window that may have started, without jitter; -1 before the first.
func (e *Entry) currentSlot(now time.Time) int64 {
	since := now.Sub(e.Start.Add(e.HealthyFor.Duration))
	if since < 0 {
		return -1
	}
	if e.countWindows() == 1 {
		return 0 // Its jitter may be longer than the window.
	}
	return int64(since / e.windowPeriod())
}

func (e *Entry) windowPeriod() time.Duration { return e.HealthyFor.Duration + e.UnhealthyFor.Duration }

// windowAt is the window of that index, if there is one. Windows stay apart because the jitter of all but single ones is at
// most healthyFor.
func (e *Entry) windowAt(node string, index int64) (Window, bool) {
	if index < 0 || index >= e.countWindows() {
		return Window{}, false
	}
	start := e.Start.Add(e.HealthyFor.Duration + time.Duration(index)*e.windowPeriod() + e.jitterDelay(node, index))
	if !e.End.IsZero() && !start.Before(e.End.Time) {
		return Window{}, false
	}
	window := Window{Index: index, Start: start, End: e.End.Time}
	if e.UnhealthyFor.Duration > 0 {
		if end := start.Add(e.UnhealthyFor.Duration); e.End.IsZero() || end.Before(e.End.Time) {
			window.End = end
		}
	}
	return window, true
}

// countWindows is how many windows there are at most.
func (e *Entry) countWindows() int64 {
	switch {
	case e.UnhealthyFor.Duration <= 0:
		return 1
	case e.Repeat > 0:
		return int64(e.Repeat)
	case e.End.IsZero():
		return math.MaxInt64
	default:
		// The end comes first, so that no number of windows overflows.
		return int64(e.End.Sub(e.Start.Time)/e.windowPeriod()) + 1
	}
}

// jitterDelay is how much later a window starts because of the jitter.
func (e *Entry) jitterDelay(node string, index int64) time.Duration {
	return Spread(e.Jitter.Duration, e.Seed, "window", node, e.UID, e.Index, index)
}

// stateAt reports whether the node is well at a time within a window, and until when.
func (p *FlapParameters) stateAt(now time.Time, window Window) (ready bool, until time.Time) {
	down, cycle := p.NotReadyFor.Duration, p.NotReadyFor.Duration+p.ReadyFor.Duration
	if down <= 0 || cycle <= down {
		return false, time.Time{}
	}
	within := now.Sub(window.Start) % cycle
	if within < down {
		return false, now.Add(down - within)
	}
	return true, now.Add(cycle - within)
}

// earlierOf is the earlier one of two times, of which a zero one is not a time.
func earlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Own is what a node's own configuration says: NotReady when it has been well for healthyFor, for unhealthyFor, in turn; for
// good if unhealthyFor is 0. It is the only entry without an end, and no part of a plan: no one but the configuration
// ends it.
func Own(start time.Time, healthyFor, unhealthyFor time.Duration) Entry {
	e := Entry{Run: OwnRun, UID: OwnRun, Fault: Fault{Type: NotReady}}
	e.Start.Time = start
	e.HealthyFor.Duration, e.UnhealthyFor.Duration = healthyFor, unhealthyFor
	return e
}

// OwnRun stands for the name of a run in the entry of a node's own configuration.
const OwnRun = "configuration"
