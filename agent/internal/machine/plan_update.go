package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Update is what is known about the update in place of an instance that is out of date.
type Update struct {
	// Unsupported says why the driver cannot update in place; empty if it can.
	Unsupported string
	// Waiting says what a Machine whose update has not started has to wait for; empty for nothing.
	Waiting string
	// Limited says what any update has to wait for after a freeze, started or not; empty for nothing.
	Limited string
	// Cordoned: the agent has cordoned the Node for the update.
	Cordoned bool
}

// Joined reports whether pods may run on the Machine's Node, so that an update has to drain it.
func Joined(o Observation) bool { return o.Node != nil && o.Machine.Spec.ProviderID != nil }

// Begun reports whether an update in place has started and not come to its end.
func Begun(o Observation) bool {
	updated := meta.FindStatusCondition(o.Machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	return o.Update.Cordoned || updated != nil && slices.Contains(
		[]string{v1alpha1.ReasonDraining, v1alpha1.ReasonUpdating, v1alpha1.ReasonUpdateFailed}, updated.Reason)
}

// DrainingSince returns since when the drain of the update in place that is under way continues; zero if it has yet to
// start. What the conditions tell of an earlier drain gives no later one less time.
func DrainingSince(machine *v1alpha1.Machine) time.Time {
	drained := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineDrainedCondition)
	updated := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	if drained == nil || updated == nil || drained.Status == metav1.ConditionTrue {
		return time.Time{}
	}
	timedOut := drained.Reason == v1alpha1.ReasonDrainTimedOut
	switch {
	case timedOut && drained.ObservedGeneration != machine.Generation:
		return time.Time{} // It was given up for a spec that has been replaced.
	case updated.Reason == v1alpha1.ReasonDraining, updated.Reason == v1alpha1.ReasonUpdateFailed && timedOut:
		return drained.LastTransitionTime.Time
	}
	return time.Time{}
}

// Ordered reports whether the Machine itself was changed since its instance was last seen to be up to date. If not,
// it is its class that was changed, or the agent.
func Ordered(machine *v1alpha1.Machine) bool {
	updated := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	return updated != nil && machine.Generation > updated.ObservedGeneration
}

// updateActions returns the steps of an update in place. The drain may take many rounds: what comes after DrainNode is
// done only when the drain is over.
func updateActions(o Observation) []Action {
	switch {
	case !o.NodeKnown || o.NodeConflict != "" || o.Update.Unsupported != "":
		return nil
	case !Joined(o):
		return []Action{UpdateInstance}
	case o.Update.Limited != "":
		return nil
	case o.Update.Waiting != "" && !Begun(o):
		return nil
	case o.Limits.SkipDrain:
		return []Action{UpdateInstance}
	case o.Node.Spec.Unschedulable:
		return []Action{DrainNode, UpdateInstance}
	}
	return []Action{CordonNode, DrainNode, UpdateInstance}
}

// shouldUncordon reports whether the agent takes back its cordon: the update is through, or will not happen.
func shouldUncordon(o Observation) bool {
	return o.Update.Cordoned && (Settled(o) || o.Terminal != nil || o.Update.Unsupported != "")
}

// BringsKubelet reports whether the Machine is about to get a kubelet that it has not run before. One that has lost its
// instance gets the kubelet back that it had, however far the API server has moved on since: no user is served by one
// Node less.
func BringsKubelet(o Observation) bool {
	switch ran := o.Machine.Status.Versions; {
	case !o.InstanceKnown:
		return false
	case o.Instance != nil:
		return !o.Instance.UpToDate
	default:
		return !Lost(o) || ran == nil || !sameVersion(o.Machine.Spec.Versions.Kubelet, ran.Kubelet)
	}
}

func sameVersion(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }

// Skewed returns the terminal error of a Machine whose kubelet the API server of version server does not support;
// nil if all is fine, if it is unknown, or if the user allows it.
func Skewed(machine *v1alpha1.Machine, server string) *Terminal {
	problem := v1alpha1.UnsupportedKubelet(machine.Spec.Versions.Kubelet, server, machine.Annotations)
	if problem == "" {
		return nil
	}
	return &Terminal{
		Reason: v1alpha1.ErrorUnsupportedKubeletVersion,
		Message: fmt.Sprintf("spec.versions.kubelet: %s: use another version, or allow it with the annotation %s=true",
			problem, v1alpha1.AllowKubeletVersionSkewAnnotation),
	}
}
