package machine

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// Marker is the condition that the Machines of cluster are to carry; nil for none. It is not known while an agent that
// has just started, or come back, has not looked yet: the Machines stay marked, or not, as they are until it has.
func Marker(cluster *v1alpha1.Cluster) (wanted *metav1.Condition, known bool) {
	list := cluster.Status.Conditions
	if !meta.IsStatusConditionTrue(list, v1alpha1.ClusterJoinedCondition) {
		return nil, true // There has never been an agent that could have said anything.
	}
	connected := meta.FindStatusCondition(list, v1alpha1.ClusterAgentConnectedCondition)
	if connected != nil && connected.Reason == v1alpha1.ReasonNamespaceDeleting {
		return marker(connected.Reason, connected.LastTransitionTime, fmt.Sprintf(
			"Namespace %s is being deleted, and the agent has no access to it any more: all else here is what it said last", cluster.Name)), true
	}
	if connected != nil && connected.Status != metav1.ConditionTrue {
		return marker(v1alpha1.ReasonAgentSilent, connected.LastTransitionTime, fmt.Sprintf(
			"The agent of Cluster %s is silent: all else here is what it said last", cluster.Name)), true
	}
	target := meta.FindStatusCondition(list, v1alpha1.ClusterTargetReachableCondition)
	if target != nil && target.Status == metav1.ConditionUnknown {
		return nil, false
	}
	if target != nil && target.Status == metav1.ConditionFalse {
		return marker(v1alpha1.ReasonTargetUnreachable, target.LastTransitionTime, fmt.Sprintf(
			"The agent of Cluster %s does not reach its API server: all else here is what it saw last", cluster.Name)), true
	}
	return nil, !looking(list)
}

// looking tells whether the agent says that it has yet to see how its Machines are, or to tell it.
func looking(list []metav1.Condition) bool {
	frozen := meta.FindStatusCondition(list, v1alpha1.ClusterAgentFrozenCondition)
	return frozen != nil && frozen.Status == metav1.ConditionTrue && freeze.Blind(frozen.Reason)
}

func marker(reason string, since metav1.Time, message string) *metav1.Condition {
	return &metav1.Condition{
		Type: v1alpha1.MachineStaleCondition, Status: metav1.ConditionTrue,
		Reason: reason, Message: message, LastTransitionTime: since,
	}
}

// marked tells whether machine carries wanted; nil for none.
func marked(machine *v1alpha1.Machine, wanted *metav1.Condition) bool {
	found := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineStaleCondition)
	if found == nil || wanted == nil {
		return found == nil && wanted == nil
	}
	return found.Status == wanted.Status && found.Reason == wanted.Reason &&
		found.LastTransitionTime.Equal(&wanted.LastTransitionTime)
}

// mark puts wanted on machine, or takes the marker off if it is nil. Reconciling and Stalled follow: a Machine whose state
// is not known is neither as its spec says nor failed.
func mark(machine *v1alpha1.Machine, wanted *metav1.Condition, now time.Time) {
	list := slices.DeleteFunc(machine.Status.Conditions, func(condition metav1.Condition) bool {
		return condition.Type == v1alpha1.MachineStaleCondition
	})
	if wanted != nil {
		list = append(list, *wanted)
	}
	machine.Status.Conditions = list
	conditions.ReconcileMachine(&machine.Status, machine.DeletionTimestamp != nil, now)
}
