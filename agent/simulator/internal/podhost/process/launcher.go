// Package process runs the processes of containers.
//
// Every process is the leader of a process group of its own. It goes through
// the exec shim, which gives up privileges, and it is killed by the kernel when
// the process that launched it ends, however that one ends. When the leader
// ends, what is left of its group is killed, as a container runtime does with
// the processes of a container.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/execshim"
)

// self is this program's file, also after it was replaced or removed on disk.
const self = "/proc/self/exe"

// ErrClosed is returned by Start after Close.
var ErrClosed = errors.New("the launcher is closed")

// Spec describes one process.
type Spec struct {
	// Path is the program, Argv its arguments with its name first.
	Path string
	Argv []string
	// Env is the whole environment.
	Env []string
	// Dir is the working directory.
	Dir string
	// Identity is the user and the privileges of the process.
	Identity Identity
	// Stdout and Stderr receive the output. Nil discards it.
	Stdout, Stderr io.Writer
}

// Identity is the user and the privileges of a process.
type Identity struct {
	// SwitchUser makes the process run as UID and GID without supplementary
	// groups. Otherwise it keeps the identity of the launching process.
	SwitchUser bool
	UID, GID   int
	// NoNewPrivileges and DropCapabilities are described in package execshim.
	NoNewPrivileges  bool
	DropCapabilities bool
}

// Launcher starts processes. The kernel ties a child's parent death signal to
// the thread that forked it, so one operating system thread, which lives as
// long as the launcher, forks all of them.
type Launcher struct {
	requests chan *launch
	closing  chan struct{}
	close    sync.Once

	mu      sync.Mutex
	running map[*Process]bool
}

type launch struct {
	command *exec.Cmd
	result  chan error
}

// NewLauncher starts the launcher's thread.
func NewLauncher() *Launcher {
	l := &Launcher{requests: make(chan *launch), closing: make(chan struct{}), running: make(map[*Process]bool)}
	go l.fork()
	return l
}

// Close ends the launcher's thread and kills every process it started that
// still runs.
func (l *Launcher) Close() {
	l.close.Do(func() { close(l.closing) })
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.running {
		p.Signal(syscall.SIGKILL)
	}
}

// fork never unlocks its thread, so no other goroutine can end it.
func (l *Launcher) fork() {
	runtime.LockOSThread()
	for {
		select {
		case <-l.closing:
			return
		case request := <-l.requests:
			request.result <- request.command.Start()
		}
	}
}

// Start starts a process. It returns once the program runs; an error means
// that it never did.
func (l *Launcher) Start(spec Spec) (*Process, error) {
	streams := make([]*stream, 0, 2)
	closeAll := func() {
		for _, s := range streams {
			s.abandon()
		}
	}
	for _, writer := range []io.Writer{spec.Stdout, spec.Stderr} {
		s, err := newStream(writer)
		if err != nil {
			closeAll()
			return nil, err
		}
		streams = append(streams, s)
	}
	report, reportEnd, err := os.Pipe()
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("making the start report's pipe: %w", err)
	}
	defer report.Close()

	command := l.command(spec, streams, reportEnd)
	err = l.do(command)
	reportEnd.Close()
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("starting %s: %w", spec.Path, err)
	}
	p := newProcess(command, streams)
	l.track(p)
	failure, err := io.ReadAll(report)
	if err != nil {
		p.Signal(syscall.SIGKILL)
		return nil, fmt.Errorf("reading the start report of %s: %w", spec.Path, err)
	}
	if len(failure) > 0 {
		<-p.Done()
		return nil, errors.New(string(failure))
	}
	return p, nil
}

// track remembers a process as long as it runs.
func (l *Launcher) track(p *Process) {
	l.mu.Lock()
	l.running[p] = true
	l.mu.Unlock()
	select {
	case <-l.closing:
		p.Signal(syscall.SIGKILL) // Close may have come before
	default:
	}
	go func() {
		<-p.Done()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, p)
	}()
}

func (l *Launcher) command(spec Spec, streams []*stream, report *os.File) *exec.Cmd {
	shim := execshim.Command{
		Path:             spec.Path,
		Argv:             spec.Argv,
		Parent:           os.Getpid(),
		SwitchUser:       spec.Identity.SwitchUser,
		UID:              spec.Identity.UID,
		GID:              spec.Identity.GID,
		NoNewPrivileges:  spec.Identity.NoNewPrivileges,
		DropCapabilities: spec.Identity.DropCapabilities,
	}
	return &exec.Cmd{
		Path:       self,
		Args:       append([]string{spec.Argv[0]}, shim.Args()...),
		Env:        spec.Env,
		Dir:        spec.Dir,
		Stdout:     streams[0].writeEnd,
		Stderr:     streams[1].writeEnd,
		ExtraFiles: []*os.File{report},
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid: true,
			// The shim sets the signal again, because it may be cleared by a
			// change of user. Here it covers the time until then.
			Pdeathsig: syscall.SIGKILL,
		},
	}
}

func (l *Launcher) do(command *exec.Cmd) error {
	request := &launch{command: command, result: make(chan error, 1)}
	select {
	case l.requests <- request:
		return <-request.result
	case <-l.closing:
		return ErrClosed
	}
}
