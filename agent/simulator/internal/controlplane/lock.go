package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// holder identifies a process. A process id alone is not enough: it is used
// again after the process has ended.
type holder struct {
	PID int `json:"pid"`
	// StartTicks is the process's start in clock ticks since boot.
	StartTicks uint64 `json:"startTicks"`
	// Group is the directory of the group whose process it is: one that has other clusters too. It is empty for a cluster's own.
	Group string `json:"group,omitempty"`
}

// lock is the exclusive right to a data directory. The kernel takes it back
// when the process ends, however it ends.
type lock struct {
	file *os.File
}

// acquireLock takes the data directory's lock. The error wraps ErrInUse if
// another process, or another cluster of this one, has it.
func acquireLock(path, group string) (*lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		owner := "another process"
		if running, err := readHolder(path); err == nil {
			owner = fmt.Sprintf("process %d", running.PID)
		}
		return nil, fmt.Errorf("%w by %s: end it with \"simcluster stop\" or choose another --data-dir", ErrInUse, owner)
	}
	held := &lock{file: file}
	if !isSameFile(path, file) {
		held.releaseLock()
		return nil, fmt.Errorf("%w: it is being deleted", ErrInUse)
	}
	if err := held.recordHolder(group); err != nil {
		held.releaseLock()
		return nil, err
	}
	return held, nil
}

// isSameFile reports whether the path still leads to the open file.
func isSameFile(path string, file *os.File) bool {
	atPath, pathErr := os.Stat(path)
	opened, fileErr := file.Stat()
	return pathErr == nil && fileErr == nil && os.SameFile(atPath, opened)
}

func (l *lock) recordHolder(group string) error {
	ticks, err := startTicks(os.Getpid())
	if err != nil {
		return err
	}
	content, err := json.Marshal(holder{PID: os.Getpid(), StartTicks: ticks, Group: group})
	if err != nil {
		return fmt.Errorf("recording the lock's holder: %w", err)
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("recording the lock's holder: %w", err)
	}
	if _, err := l.file.WriteAt(content, 0); err != nil {
		return fmt.Errorf("recording the lock's holder: %w", err)
	}
	return nil
}

// releaseLock gives the lock back. The file stays for the next holder.
func (l *lock) releaseLock() {
	l.file.Close()
}

const (
	// holderPatience is how long a new holder may take to record itself.
	holderPatience = time.Second
	holderPoll     = 20 * time.Millisecond
)

// findHolder returns the process that holds the lock now. The error wraps
// ErrNotRunning if none does.
func findHolder(ctx context.Context, path string) (holder, error) {
	var found holder
	var last error
	err := wait.PollUntilContextTimeout(ctx, holderPoll, holderPatience, true, func(context.Context) (bool, error) {
		found, last = lookForHolder(path)
		return last == nil || errors.Is(last, ErrNotRunning), nil
	})
	if last == nil && err != nil {
		last = err
	}
	return found, last
}

func lookForHolder(path string) (holder, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return holder{}, fmt.Errorf("%w: there is no %s", ErrNotRunning, path)
	}
	if err != nil {
		return holder{}, fmt.Errorf("opening the lock file: %w", err)
	}
	defer file.Close()
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return holder{}, fmt.Errorf("%w: no process holds %s", ErrNotRunning, path)
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return holder{}, fmt.Errorf("looking at the lock %s: %w", path, err)
	}
	found, err := readHolder(path)
	if err != nil {
		return holder{}, err
	}
	ticks, err := startTicks(found.PID)
	if err != nil || ticks != found.StartTicks {
		return holder{}, fmt.Errorf("the lock %s is held, but not by process %d that it names", path, found.PID)
	}
	return found, nil
}

func readHolder(path string) (holder, error) {
	var found holder
	if err := readJSON(path, &found); err != nil {
		return holder{}, fmt.Errorf("reading the lock's holder: %w", err)
	}
	return found, nil
}

// startTicks reads when the process was started.
func startTicks(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the start time of process %d: %w", pid, err)
	}
	// The second field is the program's name in parentheses, which may itself
	// contain spaces and parentheses. The start time is the 22nd field.
	const fieldsBefore = 19
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) <= fieldsBefore {
		return 0, fmt.Errorf("reading the start time of process %d: its stat file has %d fields", pid, len(fields))
	}
	ticks, err := strconv.ParseUint(fields[fieldsBefore], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the start time of process %d: %w", pid, err)
	}
	return ticks, nil
}
