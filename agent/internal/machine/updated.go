package machine

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// setUpdated says whether the instance is what the Machine's spec wants, and how far an update in place is. The
// condition's observedGeneration is the last for which the instance was up to date, or started to be made so: while
// a Machine waits for its update it stays.
func setUpdated(status *v1alpha1.MachineStatus, in Input) bool {
	before := meta.FindStatusCondition(status.Conditions, v1alpha1.MachineUpdatedCondition)
	state, reason, message := updatedCondition(in)
	if reason == "" {
		return false
	}
	condition := metav1.Condition{
		Type: v1alpha1.MachineUpdatedCondition, Status: state, Reason: reason, Message: message,
		ObservedGeneration: in.Machine.Generation,
	}
	if reason == v1alpha1.ReasonAwaitingUpdate && before != nil {
		condition.ObservedGeneration = before.ObservedGeneration
	}
	return conditions.Set(&status.Conditions, condition, in.Now)
}

// updatedCondition returns status, reason and message of Updated; no reason leaves it as it is.
func updatedCondition(in Input) (state metav1.ConditionStatus, reason, message string) {
	started := IsUpdating(in.Observation)
	switch {
	case !in.Machine.DeletionTimestamp.IsZero(), !in.InstanceKnown:
		return "", "", ""
	case in.UpdateProblem != "":
		return metav1.ConditionFalse, v1alpha1.ReasonUpdateFailed, in.UpdateProblem
	case in.Drain != nil && !in.Drain.Over:
		return metav1.ConditionFalse, v1alpha1.ReasonDraining, "the node is being drained for the update"
	case in.Updating:
		return metav1.ConditionFalse, v1alpha1.ReasonUpdating, "the instance is being updated"
	case in.Instance == nil || in.Instance.State == Deleting:
		if !started {
			return "", "", ""
		}
		return metav1.ConditionFalse, v1alpha1.ReasonUpdating, "the instance is being recreated"
	case !in.Instance.UpToDate:
		return outOfDate(in, started)
	case in.Update.Cordoned, started && !Settled(in.Observation):
		return metav1.ConditionFalse, v1alpha1.ReasonUpdating, describeAwaited(in)
	}
	return metav1.ConditionTrue, v1alpha1.ReasonUpToDate, ""
}

// Settled reports whether instance and Node are as the Machine's current spec wants them.
func Settled(o Observation) bool {
	return o.Instance != nil && o.Instance.State == Running && o.Instance.UpToDate &&
		o.Node != nil && node.Ready(o.Node) && runsVersion(o)
}

func runsVersion(o Observation) bool {
	want := o.Machine.Spec.Versions.Kubelet
	have := o.Node.Status.NodeInfo.KubeletVersion
	return want == "" || sameVersion(want, have)
}

func outOfDate(in Input, started bool) (state metav1.ConditionStatus, reason, message string) {
	switch {
	case in.Terminal != nil && started:
		return metav1.ConditionFalse, v1alpha1.ReasonUpdateFailed, in.Terminal.Message
	case in.Terminal != nil:
		return metav1.ConditionFalse, v1alpha1.ReasonAwaitingUpdate, in.Terminal.Message
	case in.Update.Unsupported != "":
		return metav1.ConditionFalse, v1alpha1.ReasonInPlaceUnsupported, in.Update.Unsupported
	case started:
		return "", "", ""
	case in.Frozen:
		return metav1.ConditionFalse, v1alpha1.ReasonAwaitingUpdate, "nothing is updated while the agent is frozen"
	}
	return metav1.ConditionFalse, v1alpha1.ReasonAwaitingUpdate, joinWithSemicolons(in.Update.Waiting, in.Update.Limited)
}

func describeAwaited(in Input) string {
	if want := in.Machine.Spec.Versions.Kubelet; want != "" {
		return fmt.Sprintf("waiting for the node to be Ready with kubelet %s", want)
	}
	return "waiting for the node to be Ready"
}

// setDrained says how a drain goes. It is taken away when the update that the drain was for is through.
func setDrained(status *v1alpha1.MachineStatus, in Input) bool {
	switch {
	case in.Drain != nil:
		since := in.Now
		if !in.DrainSince.IsZero() && in.Drain.Status == metav1.ConditionFalse {
			since = in.DrainSince
		}
		if DrainsAnew(in.Machine) {
			// Its deadline does not count from the beginning of an earlier drain.
			meta.RemoveStatusCondition(&status.Conditions, v1alpha1.MachineDrainedCondition)
		}
		return conditions.Set(&status.Conditions, metav1.Condition{
			Type: v1alpha1.MachineDrainedCondition, Status: in.Drain.Status, Reason: in.Drain.Reason,
			Message: in.Drain.Message, ObservedGeneration: in.Machine.Generation,
		}, since)
	case in.Machine.DeletionTimestamp.IsZero() && !isUpdating(*status):
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.MachineDrainedCondition)
	}
	return false
}

// isUpdating reports whether an update in place is under way.
func isUpdating(status v1alpha1.MachineStatus) bool {
	switch reasonOf(status, v1alpha1.MachineUpdatedCondition) {
	case v1alpha1.ReasonDraining, v1alpha1.ReasonUpdating, v1alpha1.ReasonUpdateFailed:
		return true
	}
	return false
}

func reasonOf(status v1alpha1.MachineStatus, conditionType string) string {
	if condition := meta.FindStatusCondition(status.Conditions, conditionType); condition != nil {
		return condition.Reason
	}
	return ""
}
