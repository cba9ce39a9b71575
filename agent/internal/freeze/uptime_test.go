package freeze

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUptimeIsReadAsItWasWritten(t *testing.T) {
	intervals := Uptime{{at(0), at(60)}, {at(100), at(4000)}}
	if got := ParseUptime(intervals.String()); !reflect.DeepEqual(got, intervals) {
		t.Errorf("%s was read as %v", intervals, got)
	}
	for text, want := range map[string]Uptime{
		"": nil, "nonsense": nil, "2026-01-01T00:00:00Z": nil, "2026-01-01T00:00:00Z/": nil,
		"x/y,2026-01-01T00:00:10Z/2026-01-01T00:00:20Z": {{at(10), at(20)}},
	} {
		if got := ParseUptime(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q was read as %v, want %v", text, got, want)
		}
	}
}

// What comes from another clock, or was written wrongly by a user, makes no time count twice, and none to come.
func TestTimesOfOthersAreCutToThePast(t *testing.T) {
	l := newDowntime(at(100))
	l.rememberUptime(Uptime{{at(0), at(50)}, {at(40), at(70)}, {at(90), at(80)}, {at(105), at(9000)}}, at(110))
	if got := l.frozenSince(at(0), at(200)); got != 125*time.Second {
		t.Errorf("frozen for %s, want 125s", got)
	}
}

func TestWhoHasThawedRemembersNoOthers(t *testing.T) {
	l := newDowntime(at(0))
	l.recordState(false, time.Time{}, at(10))
	l.rememberUptime(Uptime{{at(-100), at(0)}}, at(20))
	if got := l.frozenSince(at(-100), at(20)); got != 110*time.Second {
		t.Errorf("frozen for %s, want 110s", got)
	}
}

// Any number of agents hand on when they could act, and end whenever they like: the last one counts each second in which
// one of them could, as far as it is remembered, and none in which none could.
func TestAgentsHandOnWhenTheyCouldAct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, kept := epoch, ""
		var acted []bool
		l, intervals := newDowntime(now), 0
		for process := range rapid.IntRange(1, 9).Draw(t, "agents") {
			if process > 0 {
				for range rapid.IntRange(0, 4).Draw(t, "down") {
					acted, now = append(acted, false), now.Add(time.Second)
				}
				l = newDowntime(now)
				l.rememberUptime(ParseUptime(kept), now)
			}
			frozen := true
			for range rapid.IntRange(0, 8).Draw(t, "seconds") {
				was := frozen
				frozen = rapid.Bool().Draw(t, "frozen")
				if was && !frozen {
					intervals++
				}
				l.recordState(frozen, now, now)
				acted, now = append(acted, !frozen), now.Add(time.Second)
				l.recordState(frozen, now, now)
				kept = l.uptimeUntil(now).String()
			}
		}
		start := rapid.IntRange(0, len(acted)).Draw(t, "start")
		var want time.Duration
		for _, second := range acted[start:] {
			if !second {
				want += time.Second
			}
		}
		got := l.frozenSince(at(start), now)
		if got < want || got > now.Sub(at(start)) || intervals <= maxHandedOn && got != want {
			t.Fatalf("frozen for %s of %s, want %s after %d intervals", got, now.Sub(at(start)), want, intervals)
		}
		if start == 0 && got != want {
			t.Fatalf("frozen for %s since the beginning, want %s: what was joined is lost", got, want)
		}
		if len(ParseUptime(kept)) > maxHandedOn {
			t.Fatalf("handed on: %s", kept)
		}
	})
}
