package freeze

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

func TestDowntimeCountsWhatWasFrozen(t *testing.T) {
	// The agent starts at 0 and thaws at 10, freezes from 100 to 130 and is frozen from 200 on; it is 220 now.
	l := newDowntime(at(0))
	l.recordState(true, at(0), at(5))
	l.recordState(false, time.Time{}, at(10))
	l.recordState(false, time.Time{}, at(50))
	l.recordState(true, at(100), at(110))
	l.recordState(false, time.Time{}, at(130))
	l.recordState(true, at(200), at(210))
	for since, want := range map[int]int{
		-3600: 3600 + 10 + 30 + 20, 0: 10 + 30 + 20, 10: 30 + 20, 50: 30 + 20, 120: 10 + 20, 130: 20, 215: 5, 220: 0, 500: 0,
	} {
		if got := l.frozenSince(at(since), at(220)); got != time.Duration(want)*time.Second {
			t.Errorf("frozen since %ds: %s, want %ds", since, got, want)
		}
	}
}

// However often an agent freezes, the memory stays small, and what it forgets only moves deadlines back.
func TestDowntimeCountsEveryFreeze(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, now, frozen := newDowntime(epoch), epoch, true
		seconds := []bool{}
		for range rapid.IntRange(0, 2*maxIntervals+10).Draw(t, "changes") {
			for range rapid.IntRange(1, 3).Draw(t, "seconds") {
				seconds = append(seconds, frozen)
				now = now.Add(time.Second)
			}
			frozen = rapid.Bool().Draw(t, "frozen")
			l.recordState(frozen, now, now)
		}
		start := rapid.IntRange(0, len(seconds)).Draw(t, "start")
		var want time.Duration
		for _, second := range seconds[start:] {
			if second {
				want += time.Second
			}
		}
		got := l.frozenSince(at(start), now)
		if got < want || got > now.Sub(at(start)) {
			t.Fatalf("frozen for %s of %s, want at least %s", got, now.Sub(at(start)), want)
		}
		if len(l.intervals) <= maxIntervals-1 && got != want {
			t.Fatalf("frozen for %s, want %s", got, want)
		}
		if len(l.intervals) > maxIntervals {
			t.Fatalf("%d intervals are remembered", len(l.intervals))
		}
	})
}

func TestMonitorRecordsItsDowntime(t *testing.T) {
	w := newEnv(t)
	born := w.clock.Now()
	answer := func(err error) {
		w.Observe(Hub, err)
		w.Observe(Target, err)
	}
	thaw := func() {
		for range testPolicy.Successes {
			w.clock.Step(time.Second)
			answer(nil)
		}
	}
	thaw()
	started := time.Duration(testPolicy.Successes) * time.Second
	if got := w.FrozenSince(born.Add(-time.Hour)); got != time.Hour+started {
		t.Errorf("before the process started and until it thawed: %s", got)
	}
	thawed := w.clock.Now()
	w.clock.Step(testPolicy.After + time.Minute) // no API server answers
	if got := w.FrozenSince(thawed); got != time.Minute {
		t.Errorf("in a freeze that came by time alone, and that no caller asked about: %s", got)
	}
	answer(errors.New("down"))
	thaw()
	if got, want := w.FrozenSince(thawed), time.Minute+started; got != want {
		t.Errorf("after the thaw: %s, want %s", got, want)
	}
	reason := "hands off"
	w.order.Store(&reason)
	answer(nil)
	w.clock.Step(time.Second)
	answer(nil)
	if got, want := w.FrozenSince(thawed), time.Minute+started+time.Second; got != want {
		t.Errorf("with a freeze that a person ordered: %s, want %s", got, want)
	}
}
