package health_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
)

// stepping is a Machine in a phase with conditions that came to be at different times, the first one a minute ago, the next two.
func stepping(now time.Time, phase v1alpha1.MachinePhase, conditions ...metav1.Condition) *v1alpha1.Machine {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Finalizers: []string{"x/y"}}}
	machine.Status.Phase = phase
	for i, condition := range conditions {
		condition.LastTransitionTime = metav1.NewTime(now.Add(-time.Duration(i+1) * time.Minute))
		machine.Status.Conditions = append(machine.Status.Conditions, condition)
	}
	return machine
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Claim: `rollout status` names the pod and the disruption budget for which a Machine waits. Broken: the condition Drained is ignored.
func TestWhatAMachineDoes(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	deleted := func(machine *v1alpha1.Machine) *v1alpha1.Machine {
		machine.DeletionTimestamp = &metav1.Time{Time: now.Add(-10 * time.Minute)}
		return machine
	}
	ready := condition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	unready := condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady, "the kubelet is silent")
	budget := "waiting for pod default/web-0: The disruption budget web needs 2 healthy pods and has 2 currently"
	draining := condition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDraining, budget)
	for name, test := range map[string]struct {
		machine *v1alpha1.Machine
		doing   health.Doing
		since   time.Duration
		message string
		person  bool
	}{
		"ready":                 {stepping(now, v1alpha1.MachineRunning, ready), health.Working, time.Minute, "", false},
		"not reported":          {stepping(now, ""), health.Creating, time.Hour, "its agent has not reported on it yet", false},
		"being created":         {stepping(now, v1alpha1.MachineProvisioning, unready), health.Creating, time.Hour, "the kubelet is silent", false},
		"not ready":             {stepping(now, v1alpha1.MachineRunning, unready), health.Failing, time.Minute, "the kubelet is silent", true},
		"unknown":               {stepping(now, v1alpha1.MachineUnknown, condition(v1alpha1.ReadyCondition, metav1.ConditionUnknown, "NodeStatusUnknown", "x")), health.Unseen, time.Minute, "x", true},
		"failed":                {stepping(now, v1alpha1.MachineFailed, unready), health.Failing, time.Minute, "the kubelet is silent", true},
		"drained for deletion":  {deleted(stepping(now, v1alpha1.MachineTerminating, draining, unready)), health.Draining, time.Minute, budget, false},
		"held by a budget":      {deleted(stepping(now, v1alpha1.MachineTerminating, condition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonMisconfiguredBudget, "b"))), health.Draining, time.Minute, "b", true},
		"held by a hook":        {deleted(stepping(now, v1alpha1.MachineTerminating, condition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingHook, "h"))), health.Draining, time.Minute, "h", true},
		"drain timed out":       {deleted(stepping(now, v1alpha1.MachineTerminating, condition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, "t"))), health.Deleting, 10 * time.Minute, "finalizers: x/y", false},
		"deleted":               {deleted(stepping(now, v1alpha1.MachineTerminating, condition(v1alpha1.MachineDrainedCondition, metav1.ConditionTrue, v1alpha1.ReasonDrained, ""))), health.Deleting, 10 * time.Minute, "finalizers: x/y", false},
		"deleted while frozen":  {deleted(stepping(now, v1alpha1.MachineTerminating, condition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingThaw, "f"))), health.Deleting, time.Minute, "f", false},
		"drained for an update": {stepping(now, v1alpha1.MachineUpdating, draining, ready, condition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonDraining, "d")), health.Draining, time.Minute, budget, false},
		"updated in place":      {stepping(now, v1alpha1.MachineUpdating, condition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonUpdating, "u"), unready), health.Updating, time.Minute, "u", false},
		"waits for its turn":    {stepping(now, v1alpha1.MachineRunning, condition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingUpdate, "w"), ready), health.AwaitingTurn, time.Minute, "w", false},
		"cannot be updated":     {stepping(now, v1alpha1.MachineRunning, condition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonInPlaceUnsupported, "i"), ready), health.AwaitingTurn, time.Minute, "i", true},
		"update failed":         {stepping(now, v1alpha1.MachineUpdating, condition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonUpdateFailed, "f"), ready), health.Failing, time.Minute, "f", true},
		"its agent is silent":   {deleted(stepping(now, v1alpha1.MachineRunning, condition(v1alpha1.MachineStaleCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent, "s"), ready)), health.Unseen, time.Minute, "s", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := health.StepOf(test.machine, 0, now)
			g.Expect(step.Doing).To(Equal(test.doing))
			g.Expect(now.Sub(step.Since.Time)).To(Equal(test.since))
			g.Expect(step.Message).To(Equal(test.message))
			g.Expect(step.NeedsAPerson()).To(Equal(test.person))
		})
	}
	g := NewWithT(t)
	settling := health.StepOf(stepping(now, v1alpha1.MachineRunning, ready), 5*time.Minute, now)
	g.Expect(settling).To(And(HaveField("Doing", health.Settling), HaveField("Message", "available 2026-11-29T12:04:00Z")))
	g.Expect(health.Failing.Rank()).To(BeNumerically("<", health.Working.Rank()))
	undecodable := stepping(now, v1alpha1.MachineRunning, ready)
	undecodable.DecodeError = "spec: x"
	g.Expect(health.StepOf(undecodable, 0, now).Doing).To(Equal(health.Unseen))
}
