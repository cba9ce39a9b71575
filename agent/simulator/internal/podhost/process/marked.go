package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
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
// process killed is the one examined.
func killIfMarked(pid int, marker string) error {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it has gone
	}
	defer unix.Close(handle)
	environment, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil // it has gone, or belongs to somebody else
	}
	if !bytes.Contains(append([]byte{0}, environment...), append(append([]byte{0}, marker...), 0)) {
		return nil
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	return nil
}
