package hollownode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/status"
)

// orderSandboxStatus makes the kubelet report a ready sandbox before it continues with the pod's containers.
//
// Of itself (since v1.36) it does that beside them: it reads the pod's status, sets the condition
// PodReadyToStartContainers and writes the status back. A container that starts in between is overwritten:
// the pod was Ready and is Pending again, until the next sync of the pod more than a minute later. Real
// runtimes take too long to start a container for that to be seen; this one takes microseconds.
func orderSandboxStatus(k *kubelet.Kubelet) error {
	statuses, err := getField[status.Manager](k, statusManager)
	if err != nil {
		return err
	}
	helper, err := getField[kubecontainer.RuntimeHelper](k, runtimeHelper)
	if err != nil {
		return err
	}
	var ordered kubecontainer.RuntimeHelper = orderedSandboxStatus{RuntimeHelper: helper, statuses: statuses}
	if err := setField(k, runtimeHelper, ordered); err != nil {
		return fmt.Errorf("container runtime: %w", err)
	}
	return nil
}

// orderedSandboxStatus reports a ready sandbox in the pod's own worker, the one that starts its containers.
type orderedSandboxStatus struct {
	kubecontainer.RuntimeHelper
	statuses status.Manager
}

// OnPodSandboxReady sets the pod's condition PodReadyToStartContainers before it returns.
func (o orderedSandboxStatus) OnPodSandboxReady(ctx context.Context, pod *corev1.Pod) error {
	known, ok := o.statuses.GetPodStatus(pod.UID)
	if !ok {
		known = pod.Status
	}
	next := known.DeepCopy() // It shares its conditions with the manager's cache.
	podutil.UpdatePodCondition(next, &corev1.PodCondition{
		Type:               corev1.PodReadyToStartContainers,
		Status:             corev1.ConditionTrue,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(next, pod.Generation, corev1.PodReadyToStartContainers),
	})
	o.statuses.SetPodStatus(klog.FromContext(ctx), pod, *next)
	return nil
}
