package machine

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// setHealthy says whether the Node is well. Before it was Ready for the first time that is Unknown, and the
// creation timeout counts; from then on a Node whose kubelet is silent is not well.
func setHealthy(status *v1alpha1.MachineStatus, in Input) bool {
	condition := metav1.Condition{
		Type: v1alpha1.MachineHealthyCondition, Status: metav1.ConditionFalse, ObservedGeneration: in.Machine.Generation,
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.MachineNodeReadyCondition)
	bad := badCondition(in)
	switch {
	case !in.NodeKnown, !in.Machine.DeletionTimestamp.IsZero():
		return keepCondition(status, condition, in, "the node could not be read")
	case ready.Status == metav1.ConditionTrue && bad == nil:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonHealthy
	case ready.Status == metav1.ConditionTrue:
		condition.Reason = v1alpha1.ReasonUnhealthyNodeCondition
		condition.Message = joinWithSemicolons(fmt.Sprintf("the node's condition %s is True", bad.Type), bad.Message)
	case wasUp(in.Machine.Status):
		condition.Reason, condition.Message = ready.Reason, ready.Message
	default:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPending
		condition.Message = "the node has not been Ready yet"
	}
	return conditions.Set(&status.Conditions, condition, in.Now)
}

// badCondition returns the first of the listed conditions that is True on the Node.
func badCondition(in Input) *corev1.NodeCondition {
	if in.Node == nil {
		return nil
	}
	for i := range in.Node.Status.Conditions {
		condition := &in.Node.Status.Conditions[i]
		if condition.Status == corev1.ConditionTrue && condition.Type != corev1.NodeReady &&
			slices.Contains(in.Limits.UnhealthyNodeConditions, string(condition.Type)) {
			return condition
		}
	}
	return nil
}

// wasUp reports whether the Machine's Node was ever Ready.
func wasUp(status v1alpha1.MachineStatus) bool {
	healthy := meta.FindStatusCondition(status.Conditions, v1alpha1.MachineHealthyCondition)
	return healthy != nil && healthy.Status != metav1.ConditionUnknown ||
		slices.Contains([]v1alpha1.MachinePhase{v1alpha1.MachineRunning, v1alpha1.MachineUnknown}, status.Phase)
}

// isTimeout reports whether a terminal error is one that only the Machine's recovery takes back.
func isTimeout(reason string) bool {
	return reason == v1alpha1.ErrorCreationTimeout || reason == v1alpha1.ErrorHealthTimeout
}

// expiredTimeout returns the timeout that the Machine has run into, nil if there is none. One that it ran into before
// stays until the Node is well, or until the user changes the Machine: an agent that starts over, or freezes,
// forgives nothing. A Machine that recovers before it is replaced loses its error.
func expiredTimeout(status v1alpha1.MachineStatus, in Input) *Terminal {
	before := in.Machine.Status
	kept := &Terminal{Reason: before.ErrorReason, Message: before.ErrorMessage}
	counted, limit := pendingTimeout(status, in)
	switch {
	case (!in.Machine.DeletionTimestamp.IsZero() || in.Unresolved != nil) && isTimeout(before.ErrorReason):
		return kept
	case counted == "":
		return nil
	case counted == before.ErrorReason && before.ObservedGeneration == in.Machine.Generation:
		return kept
	}
	if in.Frozen || limit.elapsed < limit.timeout {
		return nil
	}
	healthy := meta.FindStatusCondition(status.Conditions, v1alpha1.MachineHealthyCondition)
	message := fmt.Sprintf("the machine was unhealthy for %s: %s", limit.timeout, joinWithSemicolons(healthy.Reason, healthy.Message))
	if counted == v1alpha1.ErrorCreationTimeout {
		message = fmt.Sprintf("the node was not Ready within %s of the machine's creation: %s", limit.timeout, holdUp(status))
	}
	return &Terminal{Reason: counted, Message: message}
}

// holdUp says what keeps a new Machine from being Ready.
func holdUp(status v1alpha1.MachineStatus) string {
	return conditions.Summarize(status.Conditions, startingTable, 0).Message
}

type limit struct{ elapsed, timeout time.Duration }

// pendingTimeout returns the error that the Machine is on its way to, empty if none.
func pendingTimeout(status v1alpha1.MachineStatus, in Input) (string, limit) {
	healthy := meta.FindStatusCondition(status.Conditions, v1alpha1.MachineHealthyCondition)
	switch {
	case !in.Machine.DeletionTimestamp.IsZero(), in.Terminal != nil, in.Unresolved != nil:
		return "", limit{}
	case healthy.Status == metav1.ConditionFalse && meta.IsStatusConditionFalse(in.Machine.Status.Conditions, healthy.Type):
		return v1alpha1.ErrorHealthTimeout, limit{elapsed: in.Elapsed.Unhealthy, timeout: in.Limits.Health}
	case healthy.Status == metav1.ConditionFalse:
		return v1alpha1.ErrorHealthTimeout, limit{timeout: in.Limits.Health}
	case healthy.Status == metav1.ConditionUnknown && !wasUp(in.Machine.Status):
		return v1alpha1.ErrorCreationTimeout, limit{elapsed: in.Elapsed.Creation, timeout: in.Limits.Creation}
	}
	return "", limit{}
}

// Deadline returns the time until the Machine runs into a timeout, 0 if it is not on its way to one.
func Deadline(status v1alpha1.MachineStatus, in Input) time.Duration {
	counted, limit := pendingTimeout(status, in)
	if counted == "" || in.Frozen || status.ErrorReason != "" {
		return 0
	}
	return max(limit.timeout-limit.elapsed, 1)
}

// setSchedulable says that the Node is cordoned and by whom. The condition is there only while the Node is cordoned: it
// is news, and most Machines never have it.
func setSchedulable(status *v1alpha1.MachineStatus, in Input) bool {
	switch {
	case !in.NodeKnown:
		return false
	case in.Node == nil || !in.Node.Spec.Unschedulable:
		return meta.RemoveStatusCondition(&status.Conditions, v1alpha1.MachineSchedulableCondition)
	}
	message := "the Node is cordoned, but not by the agent: it takes no new pods until kubectl uncordon"
	if by := in.Node.Annotations[v1alpha1.NodeCordonedAnnotation]; by != "" {
		message = "the Node is cordoned by the agent for the Machine's " + by
	}
	return conditions.Set(&status.Conditions, metav1.Condition{
		Type: v1alpha1.MachineSchedulableCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCordoned,
		Message: message, ObservedGeneration: in.Machine.Generation,
	}, in.Now)
}
