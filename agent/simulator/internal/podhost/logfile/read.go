package logfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crilogs "k8s.io/cri-client/pkg/logs"
)

// Options selects what Read returns.
type Options = crilogs.LogOptions

// Read copies the log to the writer, without the stamps unless the options ask
// for them. To follow a log, running reports whether its container still runs.
func Read(ctx context.Context, path string, options *Options, running func() bool, output io.Writer) error {
	if !options.Follow {
		if err := readRotated(ctx, path, options, output); err != nil {
			return err
		}
	}
	return withRemedy(crilogs.ReadLogs(ctx, path, "container", options, liveness{running: running}, output, output))
}

// withRemedy explains why a log cannot be followed: few know that a user may
// have only so many inotify instances. The library keeps the cause as text alone.
func withRemedy(err error) error {
	if err == nil || !strings.Contains(err.Error(), "fsnotify watcher: "+syscall.EMFILE.Error()) {
		return err
	}
	return fmt.Errorf("following the log: %w: the control planes of this user have taken all inotify instances: end some, or raise the sysctl fs.inotify.max_user_instances", err)
}

// readRotated copies the older file, unless only the last lines are wanted,
// which the newer file holds.
func readRotated(ctx context.Context, path string, options *Options, output io.Writer) error {
	older := Rotated(path)
	if _, err := os.Stat(older); options.TailLines != nil || options.LimitBytes != nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return crilogs.ReadLogs(ctx, older, "", options, nil, output, output)
}

// liveness answers the one question that the reader asks a container runtime.
type liveness struct {
	internalapi.RuntimeService
	running func() bool
}

// ContainerStatus implements the one method of the runtime service in use.
func (l liveness) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	state := runtimeapi.ContainerState_CONTAINER_EXITED
	if l.running() {
		state = runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: state}}, nil
}
