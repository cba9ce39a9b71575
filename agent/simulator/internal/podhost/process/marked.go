package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// execPatience bounds the wait for a process that becomes another program, and
// execPause is the time between two looks at it.
const (
	execPatience = 5 * time.Second
	execPause    = time.Millisecond
)

// KillMarked kills every process whose environment has the variable, given as
// NAME=VALUE. It finds descendants of a process that left its group or outlived
// the launcher, unless they changed their environment. Processes of other users
// that cannot be examined are left alone.
func KillMarked(marker string) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	var failed error
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid != os.Getpid() {
			failed = errors.Join(failed, killIfMarked(pid, marker))
		}
	}
	return failed
}

// killIfMarked holds on to the process while it examines it, so that the
// process killed is the one examined. Only ESRCH says that a process has gone:
// after any other error a marked process may well be running.
func killIfMarked(pid int, marker string) error {
	handle, unopened := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(unopened, unix.ESRCH):
		return nil
	case unopened == nil:
		defer unix.Close(handle)
	}
	marked, err := isMarked(pid, marker)
	if err != nil || !marked {
		return err
	}
	if unopened != nil {
		return fmt.Errorf("process %d was left by an earlier podhost; end it, because it cannot be killed safely from here: opening it: %w", pid, unopened)
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	return nil
}

// isMarked reports whether the process has the variable in its environment. One
// that has gone, or belongs to another user, has not.
func isMarked(pid int, marker string) (bool, error) {
	environment, err := environmentOf(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, fs.ErrPermission):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the environment of process %d: %w", pid, err)
	}
	return bytes.Contains(append([]byte{0}, environment...), append(append([]byte{0}, marker...), 0)), nil
}

// environmentOf returns the environment of a process. The environment of one
// that is becoming another program is empty for a moment, which is waited for.
func environmentOf(pid int) ([]byte, error) {
	directory := filepath.Join("/proc", strconv.Itoa(pid))
	for deadline := time.Now().Add(execPatience); ; <-time.After(execPause) {
		environment, err := os.ReadFile(filepath.Join(directory, "environ"))
		if err != nil || len(environment) > 0 || time.Now().After(deadline) {
			return environment, err
		}
		if status, err := os.ReadFile(filepath.Join(directory, "stat")); err != nil || !isInExec(string(status)) {
			return environment, err
		}
	}
}

// isInExec tells by the status of a process whether its program is just being
// replaced: it is alive, no thread of the kernel, and its environment, unlike
// an empty one, is nowhere.
func isInExec(status string) bool {
	const (
		// The numbers of fields in proc_pid_stat(5), less the three of which
		// the first two end with the parenthesis.
		flags, environmentEnd = 9 - 3, 51 - 3
		kernelThread          = 0x00200000 // PF_KTHREAD
	)
	fields := strings.Fields(status[strings.LastIndexByte(status, ')')+1:])
	if len(fields) <= environmentEnd || fields[0] == "Z" || fields[0] == "X" || fields[environmentEnd] != "0" {
		return false
	}
	bits, err := strconv.ParseUint(fields[flags], 10, 64)
	return err == nil && bits&kernelThread == 0
}
