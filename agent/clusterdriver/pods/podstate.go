package pods

import (
	"fmt"
	"slices"
	"strings"

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
			state.addProblem("pod %s is not scheduled: %s", pod.Name, explainUnscheduled(pod, condition.Message))
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
			if last := each.LastTerminationState.Terminated; last != nil {
				state.addProblem("%s", describeEnd(each.Name, last))
			}
		case ended != nil:
			state.addProblem("%s", describeEnd(each.Name, ended))
		}
	}
	return state
}

// shortages are what the scheduler says where a node has not enough of something.
var shortages = []string{"Insufficient ", "Too many pods"}

// explainUnscheduled adds to what the scheduler says what the pod asks for, and what can be done, where nodes have not enough.
func explainUnscheduled(pod *corev1.Pod, message string) string {
	if !slices.ContainsFunc(shortages, func(shortage string) bool { return strings.Contains(message, shortage) }) {
		return message
	}
	sum := corev1.ResourceList{}
	for _, each := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		for name, quantity := range each.Resources.Requests {
			total := sum[name]
			total.Add(quantity)
			sum[name] = total
		}
	}
	return fmt.Sprintf("the host has no room for the %s of CPU and %s of memory that it requests, lower spec.resources.requests, give the host more nodes or remove simulated clusters: %s",
		sum.Cpu(), sum.Memory(), message)
}

func describeEnd(container string, ended *corev1.ContainerStateTerminated) string {
	remedy := ""
	if ended.Reason == "OOMKilled" && container == rendering.ControlPlaneContainer {
		remedy = ": raise spec.resources.limits.memory, or give the host nodes with more memory"
	}
	return fmt.Sprintf("container %s has ended with status %d: %s%s%s", container, ended.ExitCode, ended.Reason, remedy, formatDetail(lastLine(ended.Message)))
}

// longestLine is how much of a line of a container's output is told.
const longestLine = 500

// lastLine is the last line of what a container has written: programs say there why they end.
func lastLine(output string) string {
	output = strings.TrimSpace(output)
	line := output[strings.LastIndexByte(output, '\n')+1:]
	if len(line) > longestLine {
		line = strings.ToValidUTF8(line[:longestLine], "") + "…"
	}
	return line
}

func formatDetail(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}
