package hollownode

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
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

// keepProbes keeps probes inside the process. The kubelet's own prober decides when to probe and what follows from it;
// what it asks is the container runtime, and not the pod's address.
func keepProbes(k *kubelet.Kubelet) error {
	own, err := getField[prober.Manager](k, probeManager)
	if err != nil {
		return err
	}
	var kept prober.Manager = keptProbes{own}
	if err := setField(k, probeManager, kept); err != nil {
		return fmt.Errorf("probes: %w", err)
	}
	return nil
}

// keptProbes is the kubelet's prober, which gets to see pods whose probes are commands of the container runtime.
type keptProbes struct{ prober.Manager }

// AddPod starts to probe a pod.
func (k keptProbes) AddPod(ctx context.Context, pod *corev1.Pod) {
	k.Manager.AddPod(ctx, withKeptProbes(pod))
}

// withKeptProbes is pod, or a copy of it in which every probe is a command that the fake container runtime answers.
func withKeptProbes(pod *corev1.Pod) *corev1.Pod {
	kept := *pod
	kept.Spec.InitContainers, kept.Spec.Containers = keptContainers(pod.Spec.InitContainers), keptContainers(pod.Spec.Containers)
	return &kept
}

func keptContainers(containers []corev1.Container) []corev1.Container {
	if !slices.ContainsFunc(containers, hasProbe) {
		return containers
	}
	kept := slices.Clone(containers)
	for i := range kept {
		kept[i].StartupProbe = keptProbe(kept[i].StartupProbe, fakecri.StartupProbe)
		kept[i].ReadinessProbe = keptProbe(kept[i].ReadinessProbe, fakecri.ReadinessProbe)
		kept[i].LivenessProbe = keptProbe(kept[i].LivenessProbe, fakecri.LivenessProbe)
	}
	return kept
}

func hasProbe(c corev1.Container) bool {
	return c.StartupProbe != nil || c.ReadinessProbe != nil || c.LivenessProbe != nil
}

func keptProbe(probe *corev1.Probe, kind fakecri.Probe) *corev1.Probe {
	if probe == nil {
		return nil
	}
	kept := *probe
	kept.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: kind.Command()}}
	return &kept
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

// isSidecar reports whether the init container of that name runs as long as the pod does.
func isSidecar(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}
