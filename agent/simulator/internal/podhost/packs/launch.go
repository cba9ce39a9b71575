package packs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/pack"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/process"
)

const (
	program = "hollow-node"
	// startTimeout bounds how long a new pack takes until it listens, on a busy machine, and startPause is the time between two
	// attempts to reach it.
	startTimeout = time.Minute
	startPause   = 20 * time.Millisecond
	// niceness is how much nicer packs are than the podhost: when many nodes start at once, the API servers that they ask have to answer
	// all the same. A quarter of the processor time is theirs when others want all of it.
	niceness = 5
)

// giveUpPrivileges lets the programs that the calling thread starts gain none, by no file that they execute.
func giveUpPrivileges() {
	err := errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
	if err != nil {
		panic(fmt.Sprintf("giving up privileges for hollow nodes: %v", err)) // Linux has had both since 2015.
	}
}

// giveWay lets what the calling thread starts give way to others. It helps and is not needed.
func giveWay() {
	// The kernel's own call returns 20 less the niceness.
	if inverse, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-inverse+niceness)
	}
}

// workingDirectory belongs to the pack's user. The pack's log is beside it, out of the user's reach.
func (p *running) workingDirectory() string { return filepath.Join(p.directory, "run") }

// launch starts the process of a pack. The log of a pack of one goes to its node's.
func (l *Launcher) launch(p *running, first Spec) error {
	if err := l.makeDirectories(p); err != nil {
		return err
	}
	// The user of a pack may not get to the program by the directories that lead there, so the child opens it by what is open here.
	file, err := os.Open(filepath.Join(p.image, program))
	if err != nil {
		return err
	}
	defer file.Close()
	command := process.Command{
		Path: "/proc/self/fd/" + strconv.Itoa(int(file.Fd())), Name: program, Args: []string{pack.Command}, Dir: p.workingDirectory(),
		Env: []string{"HOME=.", "TMPDIR=.", "GODEBUG=" + pack.TraceLabels},
	}
	if p.alone {
		command.Env = append(command.Env, "HOSTNAME="+filepath.Base(first.Name)) // It tells people which node a process is.
	}
	if id := uint32(l.options.User); id != 0 {
		command.User = &syscall.Credential{Uid: id, Gid: id}
	}
	if command.Output, err = l.openLog(p, first); err != nil {
		return err
	}
	if p.child, err = l.spawner.Start(command); err != nil {
		return fmt.Errorf("starting %s: %w", file.Name(), err)
	}
	return nil
}

func (l *Launcher) makeDirectories(p *running) error {
	err := os.Mkdir(p.directory, 0o711)
	if err == nil {
		err = os.Mkdir(p.workingDirectory(), 0o700)
	}
	if err == nil && l.options.User != 0 {
		err = os.Chown(p.workingDirectory(), l.options.User, l.options.User)
	}
	if err != nil {
		return fmt.Errorf("making the directory of a pack: %w", err)
	}
	return nil
}

func (l *Launcher) openLog(p *running, first Spec) (io.Writer, error) {
	if p.alone {
		return first.Log, nil
	}
	p.log = filepath.Join(p.directory, "pack.log")
	log, err := process.OpenLog(p.log, l.options.LogLimit)
	p.output = log
	return log, err
}

// awaitSocket waits until the pack listens.
func (l *Launcher) awaitSocket(p *running) error {
	deadline := time.After(startTimeout)
	for {
		err := pack.Reach(p.workingDirectory())
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("its process ended with code %d before it took a node%s", p.exit.Code, p.whyNot())
		case <-deadline:
			_ = p.child.Signal(syscall.SIGKILL)
			return fmt.Errorf("a pack does not listen after %s: %w", startTimeout, err)
		case <-l.closed:
			return ErrClosed
		case <-time.After(startPause):
		}
	}
}

// whyNot is the reason why a program is not a pack, as far as it is known.
func (p *running) whyNot() string {
	const usage = 2
	if p.exit.Code != usage {
		return ""
	}
	return fmt.Sprintf(": a hollow-node from before packs cannot run here; give --image a directory with the one of this release in place of %s", p.image)
}

// awaitEnd waits for the end of a pack's process.
func (p *running) awaitEnd() {
	defer close(p.done)
	err := p.child.Wait()
	p.exit = Exit{At: time.Now()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		status, _ := exit.Sys().(syscall.WaitStatus)
		p.exit.Code = status.ExitStatus()
		if status.Signaled() {
			p.exit.Code, p.exit.Signal = 128+int(status.Signal()), status.Signal()
		}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		p.exit.Code = 1
	}
}
