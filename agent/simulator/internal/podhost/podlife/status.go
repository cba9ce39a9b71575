package podlife

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podstatus"
)

// writeDelay collects the changes that come in one burst, such as those of a start.
const writeDelay = 100 * time.Millisecond

// change applies a change and has the resulting status written.
func (p *Pod) change(apply func()) {
	p.mu.Lock()
	apply()
	in := podstatus.Input{
		Pod:        p.pod,
		Previous:   ptr.To(p.status),
		Containers: p.containers(),
		Terminated: p.ended,
		Reason:     p.reason,
		Message:    p.message,
		StartTime:  p.startTime,
		Now:        metav1.Now().Rfc3339Copy(),
	}
	if p.ip.IsValid() {
		in.IP = p.ip.String()
	}
	p.status = podstatus.Compute(in)
	p.mu.Unlock()
	wake(p.dirty)
}

// containers are the statuses of the pod's containers. A pod that is refused can have others than a hollow node. The caller holds the lock.
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

// writeStatuses writes the status after every change, until the pod has ended. The last status is left to whoever waits for the end.
func (p *Pod) writeStatuses() {
	pause, retry := writeDelay, firstRetry
	for {
		select {
		case <-p.writing.Done():
			return
		case <-p.dirty:
		}
		select {
		case <-p.writing.Done():
			return
		case <-time.After(pause):
		}
		pause = writeDelay
		pod := p.Snapshot()
		if err := p.runtime.Write(p.writing, pod); err != nil {
			klog.Background().V(2).Info("Writing the status of a pod failed, will retry", "pod", klog.KObj(pod), "err", err)
			pause, retry = retry, min(2*retry, lastRetry)
			wake(p.dirty)
			continue
		}
		retry = firstRetry
	}
}

// restore continues from the status that an earlier podhost left. A container that ran has ended with that podhost: how is not known.
func restore(pod *corev1.Pod) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: hollowpod.ContainerName, Started: ptr.To(false), State: waiting("ContainerCreating", "")}
	for i := range pod.Status.ContainerStatuses {
		previous := &pod.Status.ContainerStatuses[i]
		if previous.Name != hollowpod.ContainerName {
			continue
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
	}
	return status
}

func (p *Pod) warn(reason, message string) { p.record(corev1.EventTypeWarning, reason, message) }

func (p *Pod) inform(reason, message string) { p.record(corev1.EventTypeNormal, reason, message) }

func (p *Pod) record(kind, reason, message string) {
	p.mu.Lock()
	pod := p.pod
	p.mu.Unlock()
	if p.writing.Err() == nil {
		p.runtime.Recorder.Event(pod, kind, reason, message)
	}
}
