package process

import (
	"syscall"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/keeper"
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

// Running is something that was started: a process, or what is to its pod like one.
type Running interface {
	// StartedAt returns when it was started.
	StartedAt() time.Time
	// Done is closed when it has ended and its output has been read.
	Done() <-chan struct{}
	// Exit tells how it ended. It must not be called before Done is closed.
	Exit() Exit
	// Signal sends a signal to it. It does nothing once it has ended.
	Signal(syscall.Signal)
}

// Process is a started process.
type Process struct {
	kept      *keeper.Process
	startedAt time.Time
	done      chan struct{}
	exit      Exit // valid once done is closed
}

func newProcess(kept *keeper.Process, streams []*stream) *Process {
	p := &Process{kept: kept, startedAt: time.Now(), done: make(chan struct{})}
	for _, s := range streams {
		s.follow()
	}
	go p.wait(streams)
	return p
}

// PID returns the process ID, which is also the ID of its process group.
func (p *Process) PID() int { return p.kept.PID() }

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
func (p *Process) Signal(signal syscall.Signal) { p.kept.Signal(signal) }

// wait ends with the process.
func (p *Process) wait(streams []*stream) {
	defer close(p.done)
	status := p.kept.Wait()
	p.exit = Exit{Code: status.ExitStatus(), At: time.Now()}
	if status.Signaled() {
		p.exit.Signal = status.Signal()
		p.exit.Code = 128 + int(status.Signal())
	}
	for _, s := range streams {
		s.drain(drainTimeout)
	}
}
