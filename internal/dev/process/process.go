// Package process starts the programs of a local fleet, whole simulated control planes among them, watches them and ends them.
package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spec describes one program to start.
type Spec struct {
	// Name is for messages: "hub", "agent c1".
	Name string
	// Path of the executable and its arguments.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// LogFile takes standard output and standard error; its directory is made.
	LogFile string
	// Detached lets the program outlive this process. Otherwise it gets SIGTERM when this process dies.
	Detached bool
	// Niceness is how much the program gives way to others, from 0 to 19. What it starts gives way as much.
	Niceness int
}

// Process is a started program.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts the program.
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.LogFile), 0o755); err != nil {
		return nil, fmt.Errorf("making the log directory of %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A session of its own: Ctrl-C at the terminal reaches us alone, and we end our programs in order; a
	// detached program does not notice that the terminal closes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !spec.Detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	}
	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The death signal is tied to the thread that forks, so that thread must live as long as the program.
		runtime.LockOSThread()
		if spec.Niceness == 0 {
			defer runtime.UnlockOSThread()
		} else {
			giveWay(spec.Niceness) // This thread, which the program inherits it from. It is never unlocked, so that it ends with the goroutine.
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	return p, nil
}

// giveWay lets the calling thread give way. It helps and is not needed.
func giveWay(niceness int) {
	// The kernel's own call returns 20 less the niceness.
	if inverse, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-inverse+niceness)
	}
}

// PID is the program's process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Name is the name of its Spec.
func (p *Process) Name() string { return p.spec.Name }

// LogFile is where its output goes.
func (p *Process) LogFile() string { return p.spec.LogFile }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends the program a signal. A program that has ended is no error.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s: %w", signal, p.spec.Name, err)
	}
	return nil
}

// Stop asks the program to end with SIGTERM and, after grace, ends it with SIGKILL. It returns when the
// program is gone.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("stopping %s: it did not end within %s of SIGTERM and was killed; its log is %s", p.spec.Name, grace, p.spec.LogFile)
}

// Wait polls check every interval until it returns true, the program ends, or ctx is done. An error of check
// is kept for the message only.
func (p *Process) Wait(ctx context.Context, interval time.Duration, check func(context.Context) (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		ok, err := check(ctx)
		if ok {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting (%w); the end of %s:\n%s", p.spec.Name, p.exitError(), p.spec.LogFile, Tail(p.spec.LogFile, 15))
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; the end of %s:\n%s", p.spec.Name, errors.Join(ctx.Err(), last), p.spec.LogFile, Tail(p.spec.LogFile, 15))
		case <-ticker.C:
		}
	}
}

func (p *Process) exitError() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// Tail returns the last lines of a file, or a note that it cannot be read.
func Tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	const window = 64 << 10
	if info, err := file.Stat(); err == nil && info.Size() > window {
		if _, err := file.Seek(-window, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	var last []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, window), window)
	for scanner.Scan() {
		if last = append(last, scanner.Text()); len(last) > lines {
			last = last[1:]
		}
	}
	return strings.Join(last, "\n")
}

// Identity names a process for good: a process ID is reused, together with its start time it is not.
type Identity struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	// StartTicks is field 22 of /proc/PID/stat: clock ticks since boot.
	StartTicks uint64 `json:"startTicks"`
}

// Identity of the program.
func (p *Process) Identity() (Identity, error) {
	ticks, err := startTicks(p.PID())
	if err != nil {
		return Identity{}, fmt.Errorf("identifying %s: %w", p.spec.Name, err)
	}
	return Identity{Name: p.spec.Name, PID: p.PID(), StartTicks: ticks}, nil
}

// Self identifies this process.
func Self() (Identity, error) { return Of("self", os.Getpid()) }

// Of identifies the running process of that ID.
func Of(name string, pid int) (Identity, error) {
	ticks, err := startTicks(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("identifying process %d (%s): %w", pid, name, err)
	}
	return Identity{Name: name, PID: pid, StartTicks: ticks}, nil
}

// Alive reports whether exactly this process still runs.
func (i Identity) Alive() bool {
	ticks, err := startTicks(i.PID)
	return err == nil && ticks == i.StartTicks
}

// End ends the process with SIGTERM and, after grace, with SIGKILL, and returns when it is gone. A process
// that is gone already, or whose ID another has now, is left alone.
func (i Identity) End(ctx context.Context, grace time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !i.Alive() {
			return nil
		}
		if err := syscall.Kill(i.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("sending %s to %s (process %d): %w", signal, i.Name, i.PID, err)
		}
		if err := i.waitGone(ctx, grace); err == nil {
			return nil
		} else if ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("ending %s: process %d is still there after SIGKILL", i.Name, i.PID)
}

func (i Identity) waitGone(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return i.WaitGone(ctx, 20*time.Millisecond)
}

// WaitGone looks every interval until the process has ended, or ctx.
func (i Identity) WaitGone(ctx context.Context, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for i.Alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s (process %d) to end: %w", i.Name, i.PID, ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

// IsSuspended reports whether a signal keeps the process from running.
func (i Identity) IsSuspended() bool {
	state, ticks, err := readStat(i.PID)
	return err == nil && ticks == i.StartTicks && state == 'T'
}

// startTicks fails for a process that has ended, also when its parent has not yet collected it.
func startTicks(pid int) (uint64, error) {
	_, ticks, err := readStat(pid)
	return ticks, err
}

func readStat(pid int) (state byte, startTicks uint64, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The second field is the program's name in parentheses and may itself hold spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("reading /proc/%d/stat: %d fields after the name", pid, len(fields))
	}
	if state = fields[0][0]; state == 'Z' || state == 'X' {
		return 0, 0, fmt.Errorf("process %d has ended", pid)
	}
	startTicks, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return state, startTicks, err
}
