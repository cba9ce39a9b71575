package fakecri

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrNoProcess answers what needs a real process inside the container.
var ErrNoProcess = status.Error(codes.Unimplemented, "nothing runs in a hollow node: its containers have no process, no files and no ports")

// ExecSync succeeds without output, so that exec hooks do. A probe's command succeeds or fails as the pod's annotations
// say.
func (r *Runtime) ExecSync(_ context.Context, id string, command []string, _ time.Duration) ([]byte, []byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.findContainer(id)
	if err != nil {
		return nil, nil, err
	}
	if probe, ok := probeOf(command); ok {
		output, err := probe.probeResult(c.script, r.options.Clock.Since(c.startedAt))
		return output, nil, err
	}
	return nil, nil, nil
}

// Exec is not possible.
func (r *Runtime) Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return nil, ErrNoProcess
}

// Attach is not possible.
func (r *Runtime) Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return nil, ErrNoProcess
}

// PortForward is not possible.
func (r *Runtime) PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return nil, ErrNoProcess
}

// ReopenContainerLog does nothing: logs are not files.
func (r *Runtime) ReopenContainerLog(context.Context, string) error { return nil }

// CheckpointContainer is not possible.
func (r *Runtime) CheckpointContainer(context.Context, *runtimeapi.CheckpointContainerRequest) error {
	return ErrNoProcess
}

// GetContainerEvents is not offered; the kubelet lists instead.
func (r *Runtime) GetContainerEvents(context.Context, chan *runtimeapi.ContainerEventResponse, func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	return status.Error(codes.Unimplemented, "container events are not offered")
}
