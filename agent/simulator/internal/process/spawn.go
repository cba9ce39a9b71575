// Package process starts the components of a cluster, keeps them running and
// makes sure that none outlives the process that started it.
package process

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputGrace bounds the wait for a dead child's output, which a process that
// the child started can hold open.
const outputGrace = 2 * time.Second

// Instance is one run of a component.
type Instance interface {
	// PID is the process id.
	PID() int
	// Signal sends a signal. A run that has ended already is no error.
	Signal(signal syscall.Signal) error
	// Wait blocks until the run has ended and tells why. It is called once.
	Wait() error
}

// Spawner starts child processes which the kernel kills when this process
// ends, however it ends.
//
// The kernel sends the parent-death signal when the thread that forked the
// child ends, not when its process does. A Go program's threads come and go,
// so all children are forked from one thread that is never given back.
type Spawner struct {
	requests chan func()
}

// NewSpawner starts the thread that forks the children. It lives until Close.
// The children inherit what prepare changes of the thread.
func NewSpawner(prepare ...func()) *Spawner {
	spawner := &Spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for _, change := range prepare {
			change()
		}
		for request := range spawner.requests {
			request()
		}
	}()
	return spawner
}

// Close ends the thread, and with it what is left of the children.
func (s *Spawner) Close() { close(s.requests) }

// Command describes a child process.
type Command struct {
	Path string
	// Name is what the program is called. The default is Path.
	Name   string
	Args   []string
	Env    []string
	Dir    string
	Output io.Writer
	// Files are open in the child too, from descriptor 3 on.
	Files []*os.File
	// User is whom the child runs as. Nil for the user of this process.
	User *syscall.Credential
}

// Start starts the child in a process group of its own, so that a terminal's
// interrupt reaches the supervisor only and the stop happens in order.
func (s *Spawner) Start(command Command) (Instance, error) {
	cmd := exec.Command(command.Path, command.Args...)
	cmd.Env = command.Env
	cmd.Dir = command.Dir
	cmd.Stdout = command.Output
	cmd.Stderr = command.Output
	cmd.ExtraFiles = command.Files
	cmd.WaitDelay = outputGrace
	cmd.Args[0] = cmp.Or(command.Name, command.Path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: command.User}
	started := make(chan error)
	s.requests <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", command.Path, err)
	}
	return &child{cmd: cmd}, nil
}

type child struct {
	cmd *exec.Cmd
}

func (c *child) PID() int { return c.cmd.Process.Pid }

func (c *child) Signal(signal syscall.Signal) error {
	if err := c.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to process %d: %w", signal, c.PID(), err)
	}
	return nil
}

func (c *child) Wait() error { return c.cmd.Wait() }
