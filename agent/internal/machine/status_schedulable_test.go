package machine

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Edge case: A cordon was not on the Machine.
func TestCordonedNodesAreSeenOnTheMachine(t *testing.T) {
	cordon := func(by string) func(*Input) {
		return func(in *Input) {
			in.Node.Spec.Unschedulable = true
			if by != "" {
				in.Node.Annotations = map[string]string{v1alpha1.NodeCordonedAnnotation: by}
			}
		}
	}
	find := func(status v1alpha1.MachineStatus) *metav1.Condition {
		return meta.FindStatusCondition(status.Conditions, v1alpha1.MachineSchedulableCondition)
	}
	for name, test := range map[string]struct {
		change  func(*Input)
		message string
	}{
		"should name no user for a cordon that is not the agent's": {cordon(""), "not by the agent"},
		"should name the agent and what it is for":                 {cordon("update"), "by the agent for the Machine's update"},
	} {
		t.Run(name, func(t *testing.T) {
			machine := readyMachine()
			if found := find(machine.Status); found != nil {
				t.Errorf("there is a condition before any cordon: %+v", found)
			}
			before := machine.Status
			machine.Status = Compute(input(machine, test.change))
			found := find(machine.Status)
			if found == nil || found.Status != metav1.ConditionFalse || found.Reason != v1alpha1.ReasonCordoned || !strings.Contains(found.Message, test.message) {
				t.Fatalf("got %+v, want False/Cordoned with %q", found, test.message)
			}
			if !Urgent(before, machine.Status) {
				t.Error("it is held back")
			}
			unseen := Compute(input(machine, func(in *Input) { in.Node, in.NodeKnown = nil, false }))
			if find(unseen) == nil {
				t.Error("a Node that cannot be seen is taken for uncordoned")
			}
			if found := find(Compute(input(machine, func(*Input) {}))); found != nil {
				t.Errorf("it stays after the uncordon: %+v", found)
			}
		})
	}
}
