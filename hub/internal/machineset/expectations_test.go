package machineset

import (
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestExpectations(t *testing.T) {
	here := plan.Machine{UID: "a"}
	going := plan.Machine{UID: "a", Deleting: true}
	tests := map[string]struct {
		deletion bool
		after    time.Duration
		machines []plan.Machine
		open     int
		end      time.Duration
	}{
		"creation not seen":           {after: 10 * time.Second, open: 1, end: expectationTTL - 10*time.Second},
		"creation seen":               {machines: []plan.Machine{here}},
		"creation seen as going":      {machines: []plan.Machine{going}},
		"creation never seen":         {after: expectationTTL},
		"deletion not seen":           {deletion: true, machines: []plan.Machine{here}, open: 1, end: expectationTTL},
		"deletion seen":               {deletion: true, machines: []plan.Machine{going}},
		"deleted machine gone":        {deletion: true},
		"deletion never seen to come": {deletion: true, machines: []plan.Machine{here}, after: expectationTTL},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var e expectations
			e.expectChange("set", "a", test.deletion, start)
			open, end := e.countOutstanding("set", test.machines, start.Add(test.after))
			if open != test.open || end != test.end {
				t.Errorf("%d open until %s, want %d until %s", open, end, test.open, test.end)
			}
			if other, _ := e.countOutstanding("another", nil, start); other != 0 {
				t.Errorf("another set waits for %d", other)
			}
			if open == 0 && len(e.sets) != 0 {
				t.Errorf("%v is kept forever", e.sets)
			}
		})
	}
}

// A set that is deleted while something is expected of it must not be remembered forever.
func TestExpectationsOfGoneSetsEnd(t *testing.T) {
	var e expectations
	e.expectChange("gone", "a", false, start)
	e.countOutstanding("another", nil, start.Add(expectationTTL))
	if len(e.sets) != 0 {
		t.Errorf("%v is kept forever", e.sets)
	}
}
