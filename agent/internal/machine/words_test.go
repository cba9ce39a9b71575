package machine

import (
	"testing"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine/plan"
)

// The planner imports no driver; its words for states are the driver's all the same.
func TestPlannerAndDriverUseTheSameWords(t *testing.T) {
	for of, want := range map[plan.State]driver.State{
		plan.Pending: driver.Pending, plan.Running: driver.Running, plan.Failing: driver.Failing,
		plan.Failed: driver.Failed, plan.Deleting: driver.Deleting,
	} {
		if string(of) != string(want) {
			t.Errorf("the planner says %q, the driver %q", of, want)
		}
	}
}
