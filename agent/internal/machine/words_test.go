package machine

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/driver"
)

// The planner imports no driver; its words for states are the driver's all the same.
func TestPlannerAndDriverUseTheSameWords(t *testing.T) {
	for of, want := range map[State]driver.State{
		Pending: driver.Pending, Running: driver.Running, Failing: driver.Failing,
		Failed: driver.Failed, Deleting: driver.Deleting,
	} {
		if string(of) != string(want) {
			t.Errorf("the planner says %q, the driver %q", of, want)
		}
	}
}
