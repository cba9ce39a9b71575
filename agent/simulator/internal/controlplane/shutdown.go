package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	shutdownPoll = 100 * time.Millisecond
	// killPatience bounds the wait for a supervisor that was killed.
	killPatience = 5 * time.Second
)

// Shutdown ends the cluster that runs on the data directory and waits until it
// is gone. When the context ends first, the supervisor is killed, and the
// kernel kills the components with it; that is an error as well. The error
// wraps ErrNotRunning if no cluster runs.
func Shutdown(ctx context.Context, dataDir string) error {
	layout, err := NewLayout(dataDir)
	if err != nil {
		return err
	}
	running, err := findHolder(ctx, layout.lockFile())
	if err != nil {
		return err
	}
	if running.Group != "" {
		return stopInGroup(ctx, layout, running)
	}
	return EndProcess(ctx, running.PID, func() error {
		again, err := findHolder(ctx, layout.lockFile())
		if err == nil && again != running {
			err = fmt.Errorf("process %d was replaced by %d meanwhile; try again", running.PID, again.PID)
		}
		return err
	})
}

// EndProcess ends a supervisor and waits until it is gone. When the context ends first, it is killed; that is an error as well. The
// check returns nil if the process is still the one that is meant.
func EndProcess(ctx context.Context, pid int, check func() error) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// The descriptor stays with one process. If that one still is it,
	// it is the one to signal, whatever the process id means later.
	if err := check(); err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", pid, err)
	}
	if waitExit(ctx, fd) == nil {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	if err := waitExit(killCtx, fd); err != nil {
		return fmt.Errorf("waiting for the end of process %d, which was killed: %w", pid, err)
	}
	return fmt.Errorf("process %d did not stop in time and was killed", pid)
}

// stopInGroup stops a cluster whose process has other clusters too, so that it cannot be killed.
func stopInGroup(ctx context.Context, layout Layout, running holder) error {
	if err := callControl(ctx, layout.Root(), http.MethodPost, "/stop", nil, &struct{}{}); err != nil {
		return err
	}
	if waitReleased(ctx, layout) != nil {
		return fmt.Errorf("the cluster did not stop in time, and is not killed because its process, %d, has other clusters too: stop it again, or end the group with \"simcluster group stop --dir %s\"", running.PID, running.Group)
	}
	return nil
}

// WaitStopped waits until no cluster runs on the data directory.
func WaitStopped(ctx context.Context, dataDir string) error {
	layout, err := NewLayout(dataDir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return waitReleased(ctx, layout)
}

func waitReleased(ctx context.Context, layout Layout) error {
	return wait.PollUntilContextCancel(ctx, shutdownPoll, true, func(context.Context) (bool, error) {
		_, err := lookForHolder(layout.lockFile())
		return errors.Is(err, ErrNotRunning), nil
	})
}

func waitExit(ctx context.Context, fd int) error {
	for ctx.Err() == nil {
		descriptors := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		ready, err := unix.Poll(descriptors, int(shutdownPoll.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for a process: %w", err)
		}
		if ready > 0 {
			return nil
		}
	}
	return ctx.Err()
}
