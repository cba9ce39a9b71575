package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Urgent tells whether a change of status is written at once. What is not urgent is a machine on its way to
// Ready: it is written only when it makes no progress for a while.
func Urgent(before, after v1alpha1.MachineStatus) bool {
	wasReady, isReady := ready(before), ready(after)
	switch {
	case after.Phase == v1alpha1.MachineTerminating:
		return false
	case isReady == metav1.ConditionTrue:
		return true
	case wasReady == metav1.ConditionTrue:
		return true
	case before.ErrorReason != after.ErrorReason || before.ErrorMessage != after.ErrorMessage:
		return true
	}
	return podFails(after) && !podFails(before)
}

func ready(status v1alpha1.MachineStatus) metav1.ConditionStatus {
	if condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ReadyCondition); condition != nil {
		return condition.Status
	}
	return metav1.ConditionUnknown
}

func podFails(status v1alpha1.MachineStatus) bool {
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.MachinePodRunningCondition)
	return condition != nil && condition.Reason == v1alpha1.ReasonPodFailed
}

// Progress is a text that changes with every step that a machine makes, and with nothing else.
func Progress(status v1alpha1.MachineStatus) string {
	steps := []string{string(status.Phase), status.ErrorReason}
	if status.NodeRef != nil {
		steps = append(steps, string(status.NodeRef.UID))
	}
	for _, condition := range status.Conditions {
		steps = append(steps, fmt.Sprintf("%s=%s/%s", condition.Type, condition.Status, condition.Reason))
	}
	slices.Sort(steps[2:])
	return strings.Join(steps, " ")
}
