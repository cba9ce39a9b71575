package reconciler

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestWait(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var p StatusThrottle
	steps := []struct {
		after  time.Duration
		object string
		urgent bool
		want   time.Duration
	}{
		{0, "a", false, 0},
		{time.Second, "a", false, StatusInterval - time.Second},
		{2 * time.Second, "a", false, StatusInterval - 2*time.Second},
		{2 * time.Second, "b", false, 0},
		{3 * time.Second, "a", true, 0},
		{4 * time.Second, "a", false, StatusInterval - time.Second},
		{3*time.Second + StatusInterval, "a", false, 0},
	}
	for i, step := range steps {
		if got := p.Delay(types.UID(step.object), step.urgent, start.Add(step.after)); got != step.want {
			t.Errorf("step %d: waits %s, want %s", i, got, step.want)
		}
	}
	p.Delay("c", false, start.Add(time.Hour))
	if len(p.last) != 1 {
		t.Errorf("remembers %d objects, want the last one only", len(p.last))
	}
}

func TestEase(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	bounds := StatusBounds{First: 5 * time.Second, Longest: 20 * time.Second}
	var p StatusThrottle
	steps := []struct {
		at     int
		urgent bool
		wait   int
	}{
		{0, false, 0}, // The first change is told at once.
		{1, false, 4},
		{5, false, 0}, // Then the interval grows,
		{6, false, 9},
		{15, false, 0},
		{34, false, 1},
		{35, false, 0}, // to the longest.
		{54, false, 1},
		{55, false, 0},
		{56, true, 0}, // What is urgent never waits, and counts as a write.
		{57, false, 19},
		{76, false, 0},
		{116, false, 0}, // It was quiet for an interval.
		{117, false, 4},
	}
	for i, step := range steps {
		at := start.Add(time.Duration(step.at) * time.Second)
		if got, want := p.BackoffDelay("a", step.urgent, bounds, at), time.Duration(step.wait)*time.Second; got != want {
			t.Errorf("step %d: waits %s, want %s", i, got, want)
		}
	}
}
