package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// parentPoll is the longest time between two looks at the parent.
const parentPoll = 2 * time.Second

// ErrNoParent is wrapped when the process to be watched is gone already.
var ErrNoParent = errors.New("the process is gone")

// Parent watches another process, normally the one that started this one.
//
// It uses a pidfd and not the parent-death signal, because that signal also
// comes when only the thread that started this process ends.
type Parent struct {
	pid   int
	owned bool
	fd    int
}

// WatchParent opens the process for watching. With pid 0 it is the parent of
// this process. The error wraps ErrNoParent if it is gone.
func WatchParent(pid int) (*Parent, error) {
	parent := &Parent{pid: pid}
	if pid == 0 {
		parent.pid, parent.owned = os.Getppid(), true
	}
	if parent.pid == 0 {
		return nil, errors.New("watching the parent process: it lives outside this process's PID namespace")
	}
	fd, err := unix.PidfdOpen(parent.pid, 0)
	switch {
	case errors.Is(err, unix.ENOSYS) && parent.owned:
		// A kernel before 5.3. Wait ignores the descriptor and looks at the
		// parent's process id now and then.
		fd = -1
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("watching process %d: %w", parent.pid, ErrNoParent)
	case err != nil:
		return nil, fmt.Errorf("watching process %d: %w", parent.pid, err)
	}
	parent.fd = fd
	if parent.wasAdopted() {
		parent.closePipe()
		return nil, fmt.Errorf("watching process %d: %w", parent.pid, ErrNoParent)
	}
	return parent, nil
}

// wasAdopted reports whether this process has got another parent, which means that
// the one being watched has ended.
func (p *Parent) wasAdopted() bool { return p.owned && os.Getppid() != p.pid }

func (p *Parent) closePipe() {
	if p.fd >= 0 {
		unix.Close(p.fd)
	}
}

// PID is the watched process.
func (p *Parent) PID() int { return p.pid }

// Wait returns nil when the process has ended, or the context's error.
func (p *Parent) Wait(ctx context.Context) error {
	defer p.closePipe()
	for ctx.Err() == nil {
		descriptors := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		ready, err := unix.Poll(descriptors, int(parentPoll.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watching process %d: %w", p.pid, err)
		}
		if ready > 0 || p.wasAdopted() {
			return nil
		}
	}
	return ctx.Err()
}
