package clientcert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	lockFile   = "lock"
	holderFile = "holder"
	// bootIDFile has an ID that the kernel makes anew with each boot of the machine.
	bootIDFile = "/proc/sys/kernel/random/boot_id"
	// maxPredecessors bounds how many processes are remembered that have not taken the Lease.
	maxPredecessors = 8
)

// ErrInUse says that another process uses the directory.
var ErrInUse = errors.New("another agent process uses it")

// Claim takes the directory for the process of that identity until release, or until the process has ended, however it
// ends. While another process has it, the error is ErrInUse.
//
// predecessors are the identities of the processes that had this very directory before. They are no more, because each of
// them held its lock, so the new process may go on with what they held, such as the agent's Lease. A copy of the directory
// has another lock file, and a copy of the whole disk is another boot: there the processes before may well be alive, and
// nothing is known of them.
func (d *Dir) Claim(identity string) (predecessors []string, release func(), err error) {
	file, err := os.OpenFile(filepath.Join(d.path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("claiming the credential directory: %w", err)
	}
	release = func() { _ = file.Close() }
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		release()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, nil, fmt.Errorf("claiming the credential directory: %w", err)
	}
	place := placeOf(file)
	if predecessors, err = d.predecessors(place); err == nil {
		err = d.write(holderFile, []byte(strings.Join(append([]string{place, identity}, predecessors...), "\n")+"\n"))
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return predecessors, release, nil
}

// Disown makes the directory forget who had it. It is for a process that has found another one with its identity: its next
// start must not go on with what that one holds.
func (d *Dir) Disown() error {
	if err := os.Remove(filepath.Join(d.path, holderFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the agent's identity: %w", err)
	}
	return nil
}

// predecessors reads who had the directory at that place before, the last one first.
func (d *Dir) predecessors(place string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(d.path, holderFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the agent's identity: %w", err)
	}
	lines := strings.Fields(string(content))
	if place == "" || len(lines) == 0 || lines[0] != place {
		return nil, nil
	}
	return slices.Clip(lines[1:min(len(lines), 1+maxPredecessors)]), nil
}

// placeOf tells a lock file apart from its copies; it is empty where that cannot be done.
func placeOf(lock *os.File) string {
	boot, err := os.ReadFile(bootIDFile)
	if err != nil {
		return ""
	}
	info, err := lock.Stat()
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", strings.TrimSpace(string(boot)), stat.Dev, stat.Ino)
}
