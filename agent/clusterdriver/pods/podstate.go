package pods

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
)

// podState is what the kubelet says of a pod: whether it is worth asking its API server, and what is wrong. It proves nothing.
type podState struct {
	runsControlPlane, runsAgent, isFailing bool
	// isIncomplete is that the API server answers, but another component is not healthy, or has not got what was asked for.
	isIncomplete bool
	problems     []string
}

func (s *podState) addProblem(format string, arguments ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, arguments...))
}

// failures are the reasons of containers that wait which do not go away by waiting alone.
var failures = []string{"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

func describePod(pod *corev1.Pod) podState {
	var state podState
	if pod == nil {
		state.addProblem("its pod is missing: kubectl describe statefulset says why")
		return state
	}
	if pod.DeletionTimestamp != nil {
		state.addProblem("pod %s is ending", pod.Name)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			state.isFailing = condition.Reason == corev1.PodReasonUnschedulable
			state.addProblem("pod %s is not scheduled: %s", pod.Name, condition.Message)
		}
	}
	for _, each := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		isRunning := each.State.Running != nil
		switch each.Name {
		case rendering.ControlPlaneContainer:
			state.runsControlPlane = isRunning
		case rendering.AgentContainer:
			state.runsAgent = isRunning
		}
		switch waiting, ended := each.State.Waiting, each.State.Terminated; {
		case waiting != nil:
			state.isFailing = state.isFailing || slices.Contains(failures, waiting.Reason)
			state.addProblem("container %s waits: %s%s", each.Name, waiting.Reason, formatDetail(waiting.Message))
		case ended != nil:
			state.addProblem("container %s has ended with status %d: %s%s", each.Name, ended.ExitCode, ended.Reason, formatDetail(ended.Message))
		}
	}
	return state
}

func formatDetail(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
