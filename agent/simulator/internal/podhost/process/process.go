package process

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// drainTimeout is how long the output of a process is read after its end. It
// matters only if a descendant that left the process group holds it open.
const drainTimeout = time.Second

// Exit tells how a process ended.
type Exit struct {
	// Code is the exit code, or 128 plus the signal's number.
	Code int
	// Signal is zero unless a signal ended the process.
	Signal syscall.Signal
	// At is when it ended.
	At time.Time
}

// Process is a started process.
type Process struct {
	pid       int
	startedAt time.Time
	done      chan struct{}
	exit      Exit // valid once done is closed

	mu     sync.Mutex
	reaped bool
}

func newProcess(command *exec.Cmd, streams []*stream) *Process {
	p := &Process{pid: command.Process.Pid, startedAt: time.Now(), done: make(chan struct{})}
	for _, s := range streams {
		s.follow()
	}
	go p.wait(command, streams)
	return p
}

// PID returns the process ID, which is also the ID of its process group.
func (p *Process) PID() int { return p.pid }

// StartedAt returns when the process was started.
func (p *Process) StartedAt() time.Time { return p.startedAt }

// Done is closed when the process has ended, its group is gone and its output
// has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit tells how the process ended. It must not be called before Done is closed.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Signal sends a signal to the process group. It does nothing once the process
// has ended.
func (p *Process) Signal(signal syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		// The only possible failure is that the group has gone by itself.
		_ = syscall.Kill(-p.pid, signal)
	}
}

// wait ends with the process. The dead leader is left unreaped until the rest
// of its group is killed: until then no other process can get the group's ID.
func (p *Process) wait(command *exec.Cmd, streams []*stream) {
	defer close(p.done)
	waitForEnd(p.pid)
	ended := time.Now()

	p.mu.Lock()
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	// The error repeats what ProcessState says.
	_ = command.Wait()
	p.reaped = true
	p.mu.Unlock()

	for _, s := range streams {
		s.drain(drainTimeout)
	}
	p.exit = Exit{Code: command.ProcessState.ExitCode(), At: ended}
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.exit.Signal = status.Signal()
		p.exit.Code = 128 + int(status.Signal())
	}
}

// waitForEnd blocks until the child has ended and leaves it unreaped.
func waitForEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
