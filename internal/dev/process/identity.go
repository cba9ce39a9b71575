package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

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

// Alive tells whether exactly this process still runs.
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

// startTicks fails for a process that has ended, also when its parent has not yet collected it.
func startTicks(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses and may itself hold spaces and parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("reading /proc/%d/stat: %d fields after the name", pid, len(fields))
	}
	if state := fields[0][0]; state == 'Z' || state == 'X' {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}
