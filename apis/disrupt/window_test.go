package disrupt_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
)

// someWindows are the first windows of an entry.
func someWindows(e *disrupt.Entry, node string) []disrupt.Window {
	var windows []disrupt.Window
	for w := range e.Windows(node) {
		if windows = append(windows, w); len(windows) == 300 {
			break
		}
	}
	return windows
}

func TestWindowsDoNotOverlapAndEndByTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		windows := someWindows(&e, "node-1")
		if len(windows) == 0 {
			t.Fatal("there is no window")
		}
		if e.Repeat > 0 && len(windows) > int(e.Repeat) {
			t.Fatalf("%d windows, want at most %d", len(windows), e.Repeat)
		}
		for i, w := range windows {
			if w.Index != int64(i) || !w.Start.Before(w.End) || w.End.After(e.End.Time) {
				t.Fatalf("window %d is %+v, the end %s", i, w, e.End)
			}
			earliest := e.Start.Add(e.HealthyFor.Duration)
			if i > 0 {
				earliest = windows[i-1].End
			}
			if w.Start.Before(earliest) {
				t.Fatalf("window %d starts at %s, want not before %s", i, w.Start, earliest)
			}
			if length := w.End.Sub(w.Start); w.End.Before(e.End.Time) && length != e.UnhealthyFor.Duration {
				t.Fatalf("window %d lasts %s, want %s", i, length, e.UnhealthyFor.Duration)
			}
		}
	})
}

// A node that is restarted knows nothing but the plan and the time.
func TestARestartAtAnyMomentGivesTheSameWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		windows := someWindows(&e, "node-1")
		last := windows[len(windows)-1]
		now := start.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(last.End.Sub(start))-1).Draw(t, "now")))
		got, within, next := e.At("node-1", now)

		index := slices.IndexFunc(windows, func(w disrupt.Window) bool { return w.Contains(now) })
		if within != (index >= 0) || within && got != windows[index] {
			t.Fatalf("at %s: %+v, %t, want window %d of %+v", now, got, within, index, windows)
		}
		var want time.Time
		for _, w := range windows {
			for _, change := range []time.Time{w.Start, w.End} {
				if change.After(now) && (want.IsZero() || change.Before(want)) {
					want = change
				}
			}
		}
		if !next.Equal(want) {
			t.Fatalf("at %s: the next change is at %s, want %s", now, next, want)
		}
	})
}

func TestNothingIsActiveAfterTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		after := e.End.Add(time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "after")))
		active, next := disrupt.At([]disrupt.Entry{e}, "node-1", after)
		if len(active) != 0 || !next.IsZero() {
			t.Fatalf("at %s: active %+v, next %s", after, active, next)
		}
	})
}

// Following the changes one by one meets each window at its beginning and its end.
func TestTheChangesLeadThroughAllWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := []disrupt.Entry{drawEntry(t), drawEntry(t)}
		seen := make([][]int64, len(entries))
		now, steps := start.Add(-time.Second), 0
		for ; steps < 200; steps++ {
			active, next := disrupt.At(entries, "node-1", now)
			for _, one := range active {
				i := 0
				if one.Entry == &entries[1] {
					i = 1
				}
				if !slices.Contains(seen[i], one.Window.Index) {
					seen[i] = append(seen[i], one.Window.Index)
				}
			}
			if next.IsZero() {
				break
			}
			if !next.After(now) {
				t.Fatalf("at %s the next change is at %s", now, next)
			}
			now = next
		}
		for i := range entries {
			for want, got := range seen[i] {
				if int64(want) != got {
					t.Fatalf("entry %d: windows %v were met", i, seen[i])
				}
			}
			if all := someWindows(&entries[i], "node-1"); steps < 200 && len(all) < 200 && len(all) != len(seen[i]) {
				t.Fatalf("entry %d: %d of %d windows were met", i, len(seen[i]), len(all))
			}
		}
	})
}

func TestJitterPartsNodesAndWindows(t *testing.T) {
	e := entry(disrupt.Fault{Type: disrupt.NotReady}, func(e *disrupt.Entry) {
		e.HealthyFor, e.UnhealthyFor, e.Jitter = seconds(60), seconds(10), seconds(60)
	})
	delays := map[time.Duration]bool{}
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		for _, w := range someWindows(&e, node)[:3] {
			delay := w.Start.Sub(start) - time.Duration(w.Index)*70*time.Second - time.Minute
			if delay < 0 || delay > time.Minute {
				t.Errorf("window %d of %s is %s late, want at most 1m", w.Index, node, delay)
			}
			delays[delay] = true
		}
	}
	if len(delays) != 9 {
		t.Errorf("%d different delays, want 9", len(delays))
	}
}

func TestFlapsWithinItsWindow(t *testing.T) {
	e := entry(oneOfEach()[disrupt.Flap], func(e *disrupt.Entry) {
		e.HealthyFor, e.UnhealthyFor, e.Repeat = seconds(100), seconds(60), 1
	})
	for _, test := range []struct {
		at, next      int
		within, ready bool
	}{
		{0, 100, false, false},
		{100, 120, true, false}, {119, 120, true, false},
		{120, 150, true, true},
		{150, 160, true, false}, // The window's end comes first.
		{160, -1, false, false},
	} {
		active, next := disrupt.At([]disrupt.Entry{e}, "node-1", start.Add(time.Duration(test.at)*time.Second))
		var want time.Time
		if test.next >= 0 {
			want = start.Add(time.Duration(test.next) * time.Second)
		}
		if len(active) == 1 != test.within || test.within && active[0].Ready != test.ready || !next.Equal(want) {
			t.Errorf("after %ds: %+v, next %s, want %+v", test.at, active, next, test)
		}
	}
}

func TestOwnGoesOnWithoutAnEnd(t *testing.T) {
	later := start.Add(3 * 365 * 24 * time.Hour)
	for name, test := range map[string]struct {
		entry       disrupt.Entry
		at          time.Time
		active      bool
		next        time.Time
		windowStart time.Time
	}{
		"healthy at first":   {disrupt.Own(start, time.Minute, 0), start, false, start.Add(time.Minute), time.Time{}},
		"then for good":      {disrupt.Own(start, time.Minute, 0), later, true, time.Time{}, start.Add(time.Minute)},
		"in turn, well":      {disrupt.Own(later, 40*time.Second, 20*time.Second), later.Add(75 * time.Second), false, later.Add(100 * time.Second), time.Time{}},
		"in turn, not":       {disrupt.Own(start, 40*time.Second, 20*time.Second), later.Add(45 * time.Second), true, later.Add(60 * time.Second), later.Add(40 * time.Second)},
		"no time in between": {disrupt.Own(start, 0, 20*time.Second), later.Add(5 * time.Second), true, later.Add(20 * time.Second), later},
	} {
		active, next := disrupt.At([]disrupt.Entry{test.entry}, "n", test.at)
		if len(active) == 1 != test.active || !next.Equal(test.next) {
			t.Errorf("%s: %+v, next %s, want %s", name, active, next, test.next)
		} else if test.active && (!active[0].Window.Start.Equal(test.windowStart) || active[0].Entry.Fault.Type != disrupt.NotReady) {
			t.Errorf("%s: %+v, want NotReady from %s", name, active[0], test.windowStart)
		}
	}
	own := disrupt.Own(start, 0, 0)
	if own.Validate() == nil {
		t.Error("an entry without an end is taken for a part of a plan")
	}
}
