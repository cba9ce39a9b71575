package hollownode

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/fakecri"
)

// wrapLogs lets a kubelet read the logs of the fake runtime, which has no files. Which container's it is stays the kubelet's business.
func wrapLogs(k *kubelet.Kubelet, logs *fakecri.Runtime) error {
	runtime, err := getField[kubecontainer.Runtime](k, containerRuntime)
	if err != nil {
		return err
	}
	return setField(k, containerRuntime, kubecontainer.Runtime(loggedRuntime{runtime, logs}))
}

type loggedRuntime struct {
	kubecontainer.Runtime
	logs *fakecri.Runtime
}

// GetContainerLogs writes the log of one container. Hollow containers write to standard output only.
func (r loggedRuntime) GetContainerLogs(ctx context.Context, _ *corev1.Pod, id kubecontainer.ContainerID, options *corev1.PodLogOptions, stdout, _ io.Writer) error {
	if stdout == nil {
		return nil
	}
	read := fakecri.LogOptions{TailLines: options.TailLines, LimitBytes: options.LimitBytes, Timestamps: options.Timestamps, Follow: options.Follow}
	if options.SinceSeconds != nil {
		read.Since = time.Now().Add(-time.Duration(*options.SinceSeconds) * time.Second)
	}
	if options.SinceTime != nil && options.SinceTime.After(read.Since) {
		read.Since = options.SinceTime.Time
	}
	return r.logs.ReadLog(ctx, id.ID, read, stdout)
}
