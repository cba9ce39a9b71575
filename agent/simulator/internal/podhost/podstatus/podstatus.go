// Package podstatus derives a pod's status from the states of its containers,
// by the kubelet's rules.
package podstatus

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubeletstatus "k8s.io/kubernetes/pkg/kubelet/status"
)

// HostIP is the address of the node as pods see it.
const HostIP = "127.0.0.1"

// Input is what a status is computed from.
type Input struct {
	Pod *corev1.Pod
	// Previous is the status that was computed before.
	Previous *corev1.PodStatus
	// Init and Regular are the statuses of the containers, in the spec's order.
	Init, Regular []corev1.ContainerStatus
	// IP is the pod's address, or empty.
	IP string
	// Terminated is set when all containers were told to end for good and
	// have ended.
	Terminated bool
	// Reason and Message explain a pod that is refused.
	Reason, Message string
	StartTime       metav1.Time
	Now             metav1.Time
}

// Compute returns the whole status.
func Compute(in Input) corev1.PodStatus {
	status := corev1.PodStatus{
		ObservedGeneration:    in.Pod.Generation,
		Phase:                 Phase(&in.Pod.Spec, in.Init, in.Regular),
		Reason:                in.Reason,
		Message:               in.Message,
		HostIP:                HostIP,
		HostIPs:               []corev1.HostIP{{IP: HostIP}},
		StartTime:             &in.StartTime,
		InitContainerStatuses: in.Init,
		ContainerStatuses:     in.Regular,
	}
	if in.IP != "" {
		status.PodIP = in.IP
		status.PodIPs = []corev1.PodIP{{IP: in.IP}}
	}
	if in.Terminated {
		status.Phase = finalPhase(in.Regular)
	}
	status.Conditions = conditions(in, status.Phase)
	return status
}

// Phase returns the phase of a pod that is not being deleted.
func Phase(spec *corev1.PodSpec, initial, regular []corev1.ContainerStatus) corev1.PodPhase {
	for _, status := range initial {
		switch terminated := status.State.Terminated; {
		case terminated == nil:
			return corev1.PodPending
		case terminated.ExitCode != 0 && spec.RestartPolicy == corev1.RestartPolicyNever:
			return corev1.PodFailed
		case terminated.ExitCode != 0:
			return corev1.PodPending
		}
	}
	var active, failed bool
	for _, status := range regular {
		switch {
		case status.State.Running != nil:
			active = true
		case status.State.Terminated != nil:
			failed = failed || status.State.Terminated.ExitCode != 0
		case status.LastTerminationState.Terminated == nil:
			return corev1.PodPending // it never ran
		default:
			active = true // it waits for a restart
		}
	}
	switch {
	case active || spec.RestartPolicy == corev1.RestartPolicyAlways:
		return corev1.PodRunning
	case !failed:
		return corev1.PodSucceeded
	case spec.RestartPolicy == corev1.RestartPolicyNever:
		return corev1.PodFailed
	}
	return corev1.PodRunning
}

// finalPhase is the phase of a pod whose containers were ended.
func finalPhase(regular []corev1.ContainerStatus) corev1.PodPhase {
	for _, status := range regular {
		if status.State.Terminated == nil || status.State.Terminated.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// conditions computes the conditions that belong to the node. One that did not
// change keeps its time.
func conditions(in Input, phase corev1.PodPhase) []corev1.PodCondition {
	hasAddress := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, ObservedGeneration: in.Pod.Generation}
	if in.IP != "" {
		hasAddress.Status = corev1.ConditionTrue
	}
	initialized := kubeletstatus.GeneratePodInitializedCondition(in.Pod, in.Previous, append(append([]corev1.ContainerStatus{}, in.Init...), in.Regular...), phase)
	computed := []corev1.PodCondition{
		hasAddress,
		initialized,
		kubeletstatus.GeneratePodReadyCondition(in.Pod, in.Previous, nil, in.Regular, phase),
		kubeletstatus.GenerateContainersReadyCondition(in.Pod, in.Previous, in.Regular, phase),
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: in.Pod.Generation},
	}
	for i := range computed {
		computed[i].LastTransitionTime = in.Now
		if _, before := podutil.GetPodCondition(in.Previous, computed[i].Type); before != nil && before.Status == computed[i].Status {
			computed[i].LastTransitionTime = before.LastTransitionTime
		}
	}
	return computed
}

// Merge returns the API server's copy of the status with everything that the
// node computes replaced. Conditions and fields of others stay.
func Merge(computed, current corev1.PodStatus) corev1.PodStatus {
	merged := *current.DeepCopy()
	own := computed.DeepCopy()
	merged.ObservedGeneration = own.ObservedGeneration
	merged.Phase, merged.Reason, merged.Message = own.Phase, own.Reason, own.Message
	merged.HostIP, merged.HostIPs = own.HostIP, own.HostIPs
	merged.PodIP, merged.PodIPs = own.PodIP, own.PodIPs
	merged.StartTime = own.StartTime
	merged.InitContainerStatuses = own.InitContainerStatuses
	merged.ContainerStatuses = own.ContainerStatuses
	for _, condition := range own.Conditions {
		if i, _ := podutil.GetPodConditionFromList(merged.Conditions, condition.Type); i >= 0 {
			merged.Conditions[i] = condition
		} else {
			merged.Conditions = append(merged.Conditions, condition)
		}
	}
	return merged
}
