package etcdmember

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ReleaseFiles releases the files of a member that has failed and could not be closed, in the process that it was started in: its locks
// end, and whatever it still writes fails, as if its process had been killed. Otherwise the next member on the same data would wait
// for the locks until that process ends. The arguments are those of Start. After Close there is nothing left to release.
func ReleaseFiles(args []string) error {
	config, err := readFlags(args)
	if err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(config.Dir)
	if err != nil {
		return fmt.Errorf("releasing the files of a member: %w", err)
	}
	descriptors, err := os.ReadDir(descriptorDir)
	if err != nil {
		return fmt.Errorf("releasing the files of a member: %w", err)
	}
	// What is written to a descriptor that is for reading only fails.
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("releasing the files of a member: %w", err)
	}
	defer null.Close()
	for _, entry := range descriptors {
		descriptor, err := strconv.Atoi(entry.Name())
		if err != nil || !isBelow(dir, descriptor) {
			continue
		}
		// The database is mapped into memory too, so it stays locked although no descriptor is left.
		_ = unix.Flock(descriptor, unix.LOCK_UN)
		if err := unix.Dup3(int(null.Fd()), descriptor, unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("releasing the files of a member: %w", err)
		}
	}
	return nil
}

const descriptorDir = "/proc/self/fd"

// isBelow reports whether the descriptor is that of the directory or of something in it.
func isBelow(dir string, descriptor int) bool {
	target, err := os.Readlink(filepath.Join(descriptorDir, strconv.Itoa(descriptor)))
	return err == nil && (target == dir || strings.HasPrefix(target, dir+"/"))
}
