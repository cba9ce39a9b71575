package podlife

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubeletstatus "k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
)

// HostIP is the address of the node as pods see it.
const HostIP = "127.0.0.1"

// computeStatus derives the pod's status from that of its container, by the kubelet's rules. Conditions and fields of others stay as they
// were. The caller holds the lock.
func (p *Pod) computeStatus(now metav1.Time) {
	s := &p.status
	s.ObservedGeneration, s.Reason, s.Message = p.pod.Generation, p.reason, p.message
	s.ContainerStatuses = p.containers()
	s.Phase = p.phase()
	s.HostIP, s.HostIPs = HostIP, []corev1.HostIP{{IP: HostIP}}
	hasAddress := corev1.ConditionFalse
	if p.ip != nil {
		hasAddress = corev1.ConditionTrue
		s.PodIP, s.PodIPs = p.ip.String(), []corev1.PodIP{{IP: p.ip.String()}}
	}
	if s.StartTime == nil {
		s.StartTime = &now
	}
	for _, condition := range []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: hasAddress, ObservedGeneration: p.pod.Generation},
		kubeletstatus.GeneratePodInitializedCondition(p.pod, s, s.ContainerStatuses, s.Phase),
		kubeletstatus.GeneratePodReadyCondition(p.pod, s, nil, s.ContainerStatuses, s.Phase),
		kubeletstatus.GenerateContainersReadyCondition(p.pod, s, s.ContainerStatuses, s.Phase),
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: p.pod.Generation},
	} {
		podutil.UpdatePodCondition(s, &condition)
	}
}

// phase is Pending until the node has run for the first time. One that ends is started again, unless it has ended for good.
func (p *Pod) phase() corev1.PodPhase {
	ended := p.container.State.Terminated
	switch {
	case p.ended && ended != nil && ended.ExitCode == 0:
		return corev1.PodSucceeded
	case p.ended:
		return corev1.PodFailed
	case p.container.State.Waiting != nil && p.container.LastTerminationState.Terminated == nil:
		return corev1.PodPending
	}
	return corev1.PodRunning
}

// containers are the statuses of the pod's containers. A pod that is refused can have others than a hollow node.
func (p *Pod) containers() []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range p.pod.Spec.Containers {
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: ptr.To(false), State: waiting("ContainerCreating", "")}
		if c.Name == hollowpod.ContainerName {
			status = *p.container.DeepCopy()
		}
		if p.reason != "" && status.State.Waiting != nil {
			status.State = waiting(p.reason, p.message)
		}
		all = append(all, status)
	}
	return all
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// restore continues from the status that an earlier podhost left. A container that ran has ended with that podhost: how is not known.
func restore(pod *corev1.Pod) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: hollowpod.ContainerName, Started: ptr.To(false), State: waiting("ContainerCreating", "")}
	previous, found := podutil.GetContainerStatus(pod.Status.ContainerStatuses, hollowpod.ContainerName)
	if !found {
		return status
	}
	status.RestartCount, status.LastTerminationState = previous.RestartCount, previous.LastTerminationState
	status.Image, status.ContainerID, status.ImageID = previous.Image, previous.ContainerID, previous.ImageID
	if previous.State.Terminated != nil {
		status.LastTerminationState = previous.State
	}
	if running := previous.State.Running; running != nil {
		status.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode:    137,
			Reason:      "ContainerStatusUnknown",
			Message:     "the podhost ended while the container ran",
			StartedAt:   running.StartedAt,
			FinishedAt:  metav1.Now().Rfc3339Copy(),
			ContainerID: previous.ContainerID,
		}}
	}
	return status
}

func (p *Pod) warn(reason, message string) { p.record(corev1.EventTypeWarning, reason, message) }

func (p *Pod) inform(reason, message string) { p.record(corev1.EventTypeNormal, reason, message) }

// record records an event, unless the podhost ends: its pods continue under the next one.
func (p *Pod) record(kind, reason, message string) {
	select {
	case <-p.runtime.Ending:
	default:
		p.runtime.Recorder.Event(p.Snapshot(), kind, reason, message)
	}
}
