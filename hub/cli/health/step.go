package health

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Step is what a Machine does now.
type Step struct {
	// Doing is a word for it.
	Doing Doing
	// Reason is that of the condition that says so; empty for none.
	Reason string
	// Since is when it came to be so; zero if that is not known.
	Since metav1.Time
	// Message says what it waits for, such as a pod and the disruption budget that keeps it.
	Message string
}

// Doing is what a Machine does.
type Doing string

// What Machines do, in the order in which a list shows them: first what a person may have to look at.
const (
	// Failing: it has failed, or its Node is not Ready. Unseen: it has not been looked at, or its agent is silent.
	Failing Doing = "Failing"
	Unseen  Doing = "Unknown"
	// Draining: its pods are evicted, before a deletion or an update.
	Draining Doing = "Draining"
	// AwaitingTurn: it has another spec than its instance, and waits for its update. Updating: its instance is updated in place.
	AwaitingTurn Doing = "AwaitingUpdate"
	Updating     Doing = "Updating"
	// Deleting: it has no pods to wait for.
	Deleting Doing = "Deleting"
	// Creating: its Node has never been Ready.
	Creating Doing = "Creating"
	// Working: it is Ready. Settling: for less than minReadySeconds.
	Settling Doing = "Settling"
	Working  Doing = "Ready"
)

// doings are all of them in their order.
var doings = []Doing{Failing, Unseen, Draining, AwaitingTurn, Updating, Deleting, Creating, Settling, Working}

// Rank is the place of what a Machine does in a list.
func (d Doing) Rank() int {
	for i, one := range doings {
		if one == d {
			return i
		}
	}
	return len(doings)
}

// NeedsAPerson reports whether a step does not end by itself, as far as the Machine says.
func (s Step) NeedsAPerson() bool {
	return s.Doing == Failing || s.Doing == Unseen || s.Reason == v1alpha1.ReasonMisconfiguredBudget || s.Reason == v1alpha1.ReasonPodsComeBack ||
		s.Reason == v1alpha1.ReasonInPlaceUnsupported || s.Reason == v1alpha1.ReasonAwaitingHook
}

// stepFrom is a step that a condition explains.
func stepFrom(doing Doing, condition *metav1.Condition) Step {
	return Step{doing, condition.Reason, condition.LastTransitionTime, condition.Message}
}

// StepOf is what a Machine does now, by what its agent has reported last. minReady is how long it has to be Ready to be available.
func StepOf(machine *v1alpha1.Machine, minReady time.Duration, now time.Time) Step {
	status := &machine.Status
	find := func(kind string) *metav1.Condition { return meta.FindStatusCondition(status.Conditions, kind) }
	if problem := machine.NotDecoded(); problem != "" {
		return Step{Unseen, v1alpha1.ReasonUndecodable, machine.CreationTimestamp, "cannot be decoded: " + problem}
	}
	if stale := find(v1alpha1.MachineStaleCondition); stale != nil && stale.Status != metav1.ConditionFalse {
		return stepFrom(Unseen, stale)
	}
	ready := find(v1alpha1.ReadyCondition)
	switch {
	case machine.DeletionTimestamp != nil:
		return stepOfDeletion(machine, find(v1alpha1.MachineDrainedCondition), ready)
	case status.Phase == v1alpha1.MachineFailed:
		return stepOfFailure(status, ready)
	case ready == nil || slices.Contains([]v1alpha1.MachinePhase{"", v1alpha1.MachinePending, v1alpha1.MachineProvisioning}, status.Phase):
		return stepOfCreation(machine, ready)
	}
	if updated := find(v1alpha1.MachineUpdatedCondition); updated != nil && updated.Status != metav1.ConditionTrue {
		return stepOfUpdate(updated, find(v1alpha1.MachineDrainedCondition))
	}
	return stepOfReadiness(ready, minReady, now)
}

func stepOfFailure(status *v1alpha1.MachineStatus, ready *metav1.Condition) Step {
	step := Step{Doing: Failing, Reason: status.ErrorReason, Message: status.ErrorMessage}
	if ready != nil {
		step.Since, step.Reason, step.Message = ready.LastTransitionTime, cmp.Or(step.Reason, ready.Reason), cmp.Or(step.Message, ready.Message)
	}
	return step
}

// stepOfReadiness is the step of a Machine that is as its spec says.
func stepOfReadiness(ready *metav1.Condition, minReady time.Duration, now time.Time) Step {
	switch {
	case ready.Status == metav1.ConditionUnknown:
		return stepFrom(Unseen, ready)
	case ready.Status != metav1.ConditionTrue:
		return stepFrom(Failing, ready)
	case now.Sub(ready.LastTransitionTime.Time) < minReady:
		step := stepFrom(Settling, ready)
		step.Message = "available " + ready.LastTransitionTime.Add(minReady).UTC().Format(time.RFC3339)
		return step
	}
	return stepFrom(Working, ready)
}

// stepOfDeletion is the step of a Machine that is being deleted.
func stepOfDeletion(machine *v1alpha1.Machine, drained, ready *metav1.Condition) Step {
	switch {
	case ready != nil && (ready.Reason == v1alpha1.ReasonAwaitingThaw || ready.Reason == v1alpha1.ReasonThawLimited):
		return stepFrom(Deleting, ready)
	case drained != nil && drained.Status != metav1.ConditionTrue && drained.Reason != v1alpha1.ReasonDrainTimedOut:
		return stepFrom(Draining, drained)
	}
	step := Step{Doing: Deleting, Reason: v1alpha1.ReasonDeleting, Since: *machine.DeletionTimestamp}
	if ready != nil && ready.Status != metav1.ConditionTrue {
		step.Reason, step.Message = ready.Reason, ready.Message
	}
	if step.Message == "" && len(machine.Finalizers) > 0 {
		step.Message = "finalizers: " + strings.Join(machine.Finalizers, ", ")
	}
	return step
}

func stepOfCreation(machine *v1alpha1.Machine, ready *metav1.Condition) Step {
	step := Step{Doing: Creating, Reason: v1alpha1.ReasonPending, Since: machine.CreationTimestamp, Message: "its agent has not reported on it yet"}
	if ready != nil {
		step.Reason, step.Message = ready.Reason, ready.Message
	}
	return step
}

// stepOfUpdate is the step of a Machine whose instance is not as its spec says.
func stepOfUpdate(updated, drained *metav1.Condition) Step {
	switch updated.Reason {
	case v1alpha1.ReasonDraining:
		if drained != nil && drained.Status != metav1.ConditionTrue {
			return stepFrom(Draining, drained)
		}
		return stepFrom(Draining, updated)
	case v1alpha1.ReasonUpdateFailed:
		return stepFrom(Failing, updated)
	case v1alpha1.ReasonUpdating:
		return stepFrom(Updating, updated)
	}
	return stepFrom(AwaitingTurn, updated)
}
