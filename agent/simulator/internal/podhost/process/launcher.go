// Package process runs the processes of containers.
//
// Every process is the leader of a process group of its own. It is a child of
// the launcher's keeper, which package keeper describes, and goes through the
// exec shim, which gives up privileges. When the leader ends, what is left of
// its group is killed, as a container runtime does with the processes of a
// container. When the process that launched them ends, however that one ends,
// the keeper kills all of them and everything that descends from them.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/execshim"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/keeper"
)

// self is this program's file, also after it was replaced or removed on disk.
const self = "/proc/self/exe"

// ErrClosed is returned by Start after Close, and when the keeper has ended.
var ErrClosed = keeper.ErrClosed

// Spec describes one process.
type Spec struct {
	// Name is what the process is called in logs.
	Name string
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

// Launcher starts processes.
type Launcher struct {
	keeper *keeper.Keeper
}

// NewLauncher starts a launcher with its keeper.
func NewLauncher() (*Launcher, error) {
	k, err := keeper.Start()
	if err != nil {
		return nil, err
	}
	return &Launcher{keeper: k}, nil
}

// Close kills every process that the launcher started, and all that descends
// from them, and returns when they have gone.
func (l *Launcher) Close() { l.keeper.Close() }

// Done is closed when the launcher can start no more processes and those that
// it started have gone: after Close, or because its keeper was killed.
func (l *Launcher) Done() <-chan struct{} { return l.keeper.Done() }

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

	kept, err := l.keeper.Launch(l.command(spec), streams[0].writeEnd, streams[1].writeEnd, reportEnd)
	reportEnd.Close()
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("starting %s: %w", spec.Path, err)
	}
	p := newProcess(kept, streams)
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

func (l *Launcher) command(spec Spec) keeper.Command {
	shim := execshim.Command{
		Path:             spec.Path,
		Argv:             spec.Argv,
		Parent:           l.keeper.PID(),
		SwitchUser:       spec.Identity.SwitchUser,
		UID:              spec.Identity.UID,
		GID:              spec.Identity.GID,
		NoNewPrivileges:  spec.Identity.NoNewPrivileges,
		DropCapabilities: spec.Identity.DropCapabilities,
	}
	return keeper.Command{
		Path: self,
		Argv: append([]string{spec.Argv[0]}, shim.Args()...),
		Env:  spec.Env,
		Dir:  spec.Dir,
	}
}
