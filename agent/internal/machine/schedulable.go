package machine

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// setSchedulable says that the Node is cordoned and by whom. The condition is there only while the Node is cordoned: it
// is news, and most Machines never have it.
func setSchedulable(status *v1alpha1.MachineStatus, in Input) bool {
	switch {
	case !in.NodeKnown:
		return false
	case in.Node == nil || !in.Node.Spec.Unschedulable:
		return meta.RemoveStatusCondition(&status.Conditions, v1alpha1.MachineSchedulableCondition)
	}
	message := "the Node is cordoned, not by the agent: it takes no new pods until kubectl uncordon"
	if by := in.Node.Annotations[v1alpha1.NodeCordonedAnnotation]; by != "" {
		message = "the Node is cordoned by the agent for the Machine's " + by
	}
	return conditions.Set(&status.Conditions, metav1.Condition{
		Type: v1alpha1.MachineSchedulableCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCordoned,
		Message: message, ObservedGeneration: in.Machine.Generation,
	}, in.Now)
}
