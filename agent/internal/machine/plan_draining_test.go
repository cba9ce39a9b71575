package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestDrainingSince(t *testing.T) {
	started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	type told struct {
		drained    metav1.ConditionStatus
		reason     string
		updated    string
		generation int64
	}
	tests := map[string]struct {
		conditions told
		goesOn     bool
	}{
		"under way":                                 {told{metav1.ConditionFalse, v1alpha1.ReasonDraining, v1alpha1.ReasonDraining, 2}, true},
		"under way, held by a budget":               {told{metav1.ConditionFalse, v1alpha1.ReasonMisconfiguredBudget, v1alpha1.ReasonDraining, 2}, true},
		"under way, the spec changed meanwhile":     {told{metav1.ConditionFalse, v1alpha1.ReasonDraining, v1alpha1.ReasonDraining, 1}, true},
		"given up":                                  {told{metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonDraining, 2}, true},
		"given up, and the update fails":            {told{metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonUpdateFailed, 2}, true},
		"given up for another spec":                 {told{metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonDraining, 1}, false},
		"given up for another spec that failed":     {told{metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonUpdateFailed, 1}, false},
		"given up, and the update was made":         {told{metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonUpdating, 2}, false},
		"through":                                   {told{metav1.ConditionTrue, v1alpha1.ReasonDrained, v1alpha1.ReasonDraining, 2}, false},
		"through, and the update fails":             {told{metav1.ConditionTrue, v1alpha1.ReasonDrained, v1alpha1.ReasonUpdateFailed, 2}, false},
		"broken off by an invalid configuration":    {told{metav1.ConditionFalse, v1alpha1.ReasonDraining, v1alpha1.ReasonUpdateFailed, 2}, false},
		"ordered and taken back":                    {told{metav1.ConditionFalse, v1alpha1.ReasonDraining, v1alpha1.ReasonUpdating, 2}, false},
		"of an update that has its turn no more":    {told{metav1.ConditionFalse, v1alpha1.ReasonDraining, v1alpha1.ReasonAwaitingUpdate, 2}, false},
		"of an update that is not known":            {told{metav1.ConditionFalse, v1alpha1.ReasonDraining, "", 2}, false},
		"never started, though an update is on now": {told{"", "", v1alpha1.ReasonDraining, 2}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			machine := &v1alpha1.Machine{}
			machine.Generation = 2
			if test.conditions.drained != "" {
				machine.Status.Conditions = append(machine.Status.Conditions, metav1.Condition{
					Type: v1alpha1.MachineDrainedCondition, Status: test.conditions.drained, Reason: test.conditions.reason,
					ObservedGeneration: test.conditions.generation, LastTransitionTime: metav1.NewTime(started),
				})
			}
			if test.conditions.updated != "" {
				machine.Status.Conditions = append(machine.Status.Conditions, metav1.Condition{
					Type: v1alpha1.MachineUpdatedCondition, Status: metav1.ConditionFalse, Reason: test.conditions.updated,
				})
			}
			want := time.Time{}
			if test.goesOn {
				want = started
			}
			if got := DrainingSince(machine); !got.Equal(want) {
				t.Errorf("DrainingSince = %v, want %v", got, want)
			}
		})
	}
}
