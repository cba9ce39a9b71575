package hollow

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
)

// harmless are the reasons of a container that waits as every container does at first. With any other a person
// should know: the image cannot be had, the process crashes, the host cannot run such a pod.
var harmless = []string{"", "ContainerCreating", "PodInitializing"}

// stateOf reads a pod's status. It is pure.
func stateOf(pod *corev1.Pod) (state driver.State, message string) {
	switch {
	case pod.DeletionTimestamp != nil:
		return driver.Deleting, "the pod is being deleted"
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return driver.Failed, sentence("the pod has ended", pod.Status.Reason, pod.Status.Message)
	}
	for _, container := range pod.Status.ContainerStatuses {
		if waiting := container.State.Waiting; waiting != nil && !slices.Contains(harmless, waiting.Reason) {
			return driver.Failing, sentence(fmt.Sprintf("the hollow-node does not run (%d restarts)", container.RestartCount), waiting.Reason, waiting.Message)
		}
		if ended := container.State.Terminated; ended != nil {
			return driver.Failing, sentence(fmt.Sprintf("the hollow-node ended with exit code %d and will be started again", ended.ExitCode), ended.Reason, ended.Message)
		}
	}
	if pod.Status.Phase != corev1.PodRunning {
		return driver.Pending, pendingMessage(pod)
	}
	if !hasCondition(pod, corev1.PodReady, corev1.ConditionTrue) {
		return driver.Pending, "the hollow-node runs and is not ready yet"
	}
	return driver.Running, ""
}

func pendingMessage(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return sentence("the pod is not scheduled", condition.Reason, condition.Message)
		}
	}
	return "the pod is being started"
}

func hasCondition(pod *corev1.Pod, conditionType corev1.PodConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == conditionType && c.Status == status
	})
}

// sentence joins what there is of its parts with colons.
func sentence(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}
