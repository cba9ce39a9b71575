package kwok

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopGrace is how long the controller may take to end after SIGTERM.
const stopGrace = 5 * time.Second

// process is a run of kwok's controller. The kernel ends it when this process ends, however that comes.
type process struct {
	command *exec.Cmd
	// done is closed when the process has ended, for the reason in err.
	done chan struct{}
	err  error
}

// startProcess starts the program with an environment that has nothing of the agent's.
func startProcess(program string, arguments []string, dir string, output io.Writer) (*process, error) {
	p := &process{command: exec.Command(program, arguments...), done: make(chan struct{})}
	p.command.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	p.command.Dir = dir
	p.command.Stdout, p.command.Stderr = output, output
	p.command.WaitDelay = stopGrace
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The death signal comes when the thread ends that has forked, so that thread must live as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			p.err = p.command.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting kwok's controller: %w", err)
	}
	return p, nil
}

func (p *process) processID() int { return p.command.Process.Pid }

// stopProcess ends the process.
func (p *process) stopProcess() error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("ending kwok's controller: %w", err)
		}
		timer := time.NewTimer(stopGrace)
		select {
		case <-p.done:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
	return fmt.Errorf("kwok's controller did not end within %s of being killed", stopGrace)
}
