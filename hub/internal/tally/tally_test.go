package tally

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// machine is one whose Ready condition has that status since age ago.
func machine(status metav1.ConditionStatus, age time.Duration) *v1alpha1.Machine {
	m := &v1alpha1.Machine{}
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-age))}}
	return m
}

func TestOf(t *testing.T) {
	deleted := machine(metav1.ConditionTrue, time.Hour)
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	marked := machine(metav1.ConditionTrue, time.Hour)
	marked.Annotations = map[string]string{v1alpha1.DeleteMachineAnnotation: ""}
	failed := machine(metav1.ConditionFalse, time.Hour)
	failed.Status.Phase = v1alpha1.MachineFailed
	tests := map[string]struct {
		machine *v1alpha1.Machine
		want    State
	}{
		"new":                    {&v1alpha1.Machine{}, State{}},
		"not ready":              {machine(metav1.ConditionFalse, time.Hour), State{}},
		"unknown":                {machine(metav1.ConditionUnknown, time.Hour), State{}},
		"ready long enough":      {machine(metav1.ConditionTrue, 10*time.Second), State{Ready: true, Available: true}},
		"ready, not long enough": {machine(metav1.ConditionTrue, 4*time.Second), State{Ready: true, AvailableIn: 6 * time.Second}},
		"being deleted":          {deleted, State{Ready: true, Deleting: true}},
		"marked":                 {marked, State{Ready: true, Available: true, Marked: true}},
		"failed":                 {failed, State{Failed: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Of(test.machine, 10*time.Second, now); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	var counts Counts
	for _, state := range []State{
		{}, {Ready: true, Available: true}, {Ready: true, Available: true, Marked: true}, {Marked: true},
		{Ready: true, AvailableIn: 9}, {Ready: true, AvailableIn: 3}, {Ready: true, AvailableIn: 5},
		{Deleting: true, Ready: true}, {Failed: true},
	} {
		counts.Add(state)
	}
	want := Counts{Total: 9, Active: 8, Ready: 6, Available: 2, Failed: 1, MarkedAvailable: 1, NextAvailable: 3}
	if counts != want {
		t.Errorf("%+v, want %+v", counts, want)
	}
}
