package hollownode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// keepHooks keeps lifecycle hooks inside the process. Of itself the kubelet sends the request of an httpGet
// hook to the pod's address, which is made up, without a timeout: it would leave the machine and reach
// the process that has that address, or wait for minutes.
func keepHooks(k *kubelet.Kubelet) error {
	runner, err := getField[kubecontainer.HandlerRunner](k, hookRunner)
	if err != nil {
		return err
	}
	var kept kubecontainer.HandlerRunner = keptHooks{runner}
	if err := setField(k, hookRunner, kept); err != nil {
		return fmt.Errorf("lifecycle hooks: %w", err)
	}
	return nil
}

// keptHooks runs hooks. Those of HTTP succeed without a request, like probes. Commands succeed in the fake
// runtime, and sleeps take their time.
type keptHooks struct{ kubecontainer.HandlerRunner }

// Run runs one hook.
func (h keptHooks) Run(ctx context.Context, id kubecontainer.ContainerID, pod *corev1.Pod, container *corev1.Container, handler *corev1.LifecycleHandler) (string, error) {
	if handler.HTTPGet != nil || handler.TCPSocket != nil {
		return "", nil
	}
	return h.HandlerRunner.Run(ctx, id, pod, container, handler)
}
