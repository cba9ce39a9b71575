// Package podstatus derives a pod's status from the state of its container, by the kubelet's rules.
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
	// Containers are the statuses of the containers. One that ends is started again.
	Containers []corev1.ContainerStatus
	// IP is the pod's address, or empty.
	IP string
	// Terminated is set when the node was told to end for good and has ended.
	Terminated bool
	// Reason and Message explain a pod that is refused.
	Reason, Message string
	StartTime       metav1.Time
	Now             metav1.Time
}

// Compute returns the whole status.
func Compute(in Input) corev1.PodStatus {
	status := corev1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		Phase:              phase(in),
		Reason:             in.Reason,
		Message:            in.Message,
		HostIP:             HostIP,
		HostIPs:            []corev1.HostIP{{IP: HostIP}},
		StartTime:          &in.StartTime,
		ContainerStatuses:  in.Containers,
	}
	if in.IP != "" {
		status.PodIP = in.IP
		status.PodIPs = []corev1.PodIP{{IP: in.IP}}
	}
	status.Conditions = conditions(in, status.Phase)
	return status
}

// phase is Pending until all containers have run for the first time.
func phase(in Input) corev1.PodPhase {
	if in.Terminated {
		return finalPhase(in.Containers)
	}
	for _, status := range in.Containers {
		if status.State.Waiting != nil && status.LastTerminationState.Terminated == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}

// finalPhase is the phase of a pod whose containers were ended.
func finalPhase(containers []corev1.ContainerStatus) corev1.PodPhase {
	for _, status := range containers {
		if status.State.Terminated == nil || status.State.Terminated.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// conditions computes the conditions that belong to the node. One that did not change keeps its time.
func conditions(in Input, phase corev1.PodPhase) []corev1.PodCondition {
	hasAddress := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, ObservedGeneration: in.Pod.Generation}
	if in.IP != "" {
		hasAddress.Status = corev1.ConditionTrue
	}
	computed := []corev1.PodCondition{
		hasAddress,
		kubeletstatus.GeneratePodInitializedCondition(in.Pod, in.Previous, in.Containers, phase),
		kubeletstatus.GeneratePodReadyCondition(in.Pod, in.Previous, nil, in.Containers, phase),
		kubeletstatus.GenerateContainersReadyCondition(in.Pod, in.Previous, in.Containers, phase),
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

// Merge returns the API server's copy of the status with everything that the node computes replaced. Conditions and fields of others stay.
func Merge(computed, current corev1.PodStatus) corev1.PodStatus {
	merged, own := *current.DeepCopy(), computed.DeepCopy()
	conditions := merged.Conditions
	for _, condition := range own.Conditions {
		if i, _ := podutil.GetPodConditionFromList(conditions, condition.Type); i >= 0 {
			conditions[i] = condition
		} else {
			conditions = append(conditions, condition)
		}
	}
	merged.ObservedGeneration = own.ObservedGeneration
	merged.Phase, merged.Reason, merged.Message = own.Phase, own.Reason, own.Message
	merged.HostIP, merged.HostIPs, merged.PodIP, merged.PodIPs = own.HostIP, own.HostIPs, own.PodIP, own.PodIPs
	merged.StartTime, merged.ContainerStatuses, merged.Conditions = own.StartTime, own.ContainerStatuses, conditions
	return merged
}
