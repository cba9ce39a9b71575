package pace

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestWait(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var p Pacer
	steps := []struct {
		after  time.Duration
		object string
		urgent bool
		want   time.Duration
	}{
		{0, "a", false, 0},
		{time.Second, "a", false, Interval - time.Second},
		{2 * time.Second, "a", false, Interval - 2*time.Second},
		{2 * time.Second, "b", false, 0},
		{3 * time.Second, "a", true, 0},
		{4 * time.Second, "a", false, Interval - time.Second},
		{3*time.Second + Interval, "a", false, 0},
	}
	for i, step := range steps {
		if got := p.Wait(types.UID(step.object), step.urgent, start.Add(step.after)); got != step.want {
			t.Errorf("step %d: waits %s, want %s", i, got, step.want)
		}
	}
	p.Wait("c", false, start.Add(time.Hour))
	if len(p.last) != 1 {
		t.Errorf("remembers %d objects, want the last one only", len(p.last))
	}
}
