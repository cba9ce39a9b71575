package hollownode

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/utils/ptr"
)

// succeedingProbes stands in for the prober: nothing listens in a hollow container, so every probe of a
// running container counts as successful.
type succeedingProbes struct{}

var _ prober.Manager = succeedingProbes{}

func (succeedingProbes) AddPod(context.Context, *corev1.Pod)  {}
func (succeedingProbes) RemovePod(*corev1.Pod)                {}
func (succeedingProbes) StopLivenessAndStartup(*corev1.Pod)   {}
func (succeedingProbes) CleanupPods(map[types.UID]sets.Empty) {}
func (succeedingProbes) UpdatePodStatus(_ context.Context, pod *corev1.Pod, status *corev1.PodStatus) {
	for i := range status.ContainerStatuses {
		running := status.ContainerStatuses[i].State.Running != nil
		status.ContainerStatuses[i].Started = ptr.To(running)
		status.ContainerStatuses[i].Ready = running
	}
	for i := range status.InitContainerStatuses {
		setInitStatus(pod, &status.InitContainerStatuses[i])
	}
}

// setInitStatus follows the API: an init container is ready when it has succeeded, a sidecar while it runs.
func setInitStatus(pod *corev1.Pod, status *corev1.ContainerStatus) {
	running := status.State.Running != nil
	status.Started = ptr.To(running)
	status.Ready = running
	if !isSidecar(pod, status.Name) {
		status.Ready = status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
	}
}

// isSidecar tells whether the init container of that name runs as long as the pod does.
func isSidecar(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}
