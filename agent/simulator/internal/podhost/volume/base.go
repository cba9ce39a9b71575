package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// baseDirectory is the directory below the data directory that holds the
	// volumes of all pods, if it is reachable.
	baseDirectory = "pods"
	// baseRecord names the file in the data directory that holds the path of
	// a base directory outside it.
	baseRecord = "pods-directory"
	// baseMode lets other users pass but not list.
	baseMode = 0o711
)

// Base returns the directory for the volumes of all pods and makes it. Pods may
// run as users that cannot reach the data directory, for instance below a home
// directory. If this process can switch users, the base then lies in a
// directory for temporary files, and the data directory remembers where.
func Base(dataDir string, switchesUsers bool) (string, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("finding the data directory: %w", err)
	}
	inside := filepath.Join(dataDir, baseDirectory)
	if !switchesUsers || reachable(dataDir) {
		return inside, makeBase(inside)
	}
	recorded, err := readRecord(dataDir)
	if err != nil {
		return "", err
	}
	if recorded != "" {
		return recorded, nil
	}
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if !reachable(parent) {
			continue
		}
		base, err := os.MkdirTemp(parent, "hollowfleet-pods-")
		if err != nil {
			continue
		}
		if err := os.Chmod(base, baseMode); err != nil {
			return "", fmt.Errorf("opening the pods' directory to other users: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dataDir, baseRecord), []byte(base+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("recording the pods' directory: %w", err)
		}
		return base, nil
	}
	return "", fmt.Errorf("no directory for pods: other users can reach neither %s nor a directory for temporary files", dataDir)
}

// Clean removes what Base made for this data directory, inside and outside it.
// No podhost may be using it.
func Clean(dataDir string) error {
	recorded, err := readRecord(dataDir)
	if err != nil {
		return err
	}
	if recorded != "" {
		err = os.RemoveAll(recorded)
	}
	return errors.Join(err,
		os.RemoveAll(filepath.Join(dataDir, baseDirectory)),
		removeIfThere(filepath.Join(dataDir, baseRecord)))
}

// Leave removes a base directory outside the data directory if no pod has files
// in it any more.
func Leave(dataDir string) error {
	recorded, err := readRecord(dataDir)
	if err != nil || recorded == "" {
		return err
	}
	if err := os.Remove(recorded); err != nil {
		if errors.Is(err, syscall.ENOTEMPTY) {
			return nil
		}
		return fmt.Errorf("removing the pods' directory: %w", err)
	}
	return removeIfThere(filepath.Join(dataDir, baseRecord))
}

// readRecord returns the base directory outside the data directory, or "" if
// there is none or it has been removed.
func readRecord(dataDir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dataDir, baseRecord))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading where the pods' directory is: %w", err)
	}
	path := strings.TrimSpace(string(content))
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("examining the pods' directory: %w", err)
	}
	// In a directory for temporary files somebody else may have taken the name.
	if !info.IsDir() || !ownedByUs(info) {
		return "", nil
	}
	return path, nil
}

func makeBase(path string) error {
	if err := os.MkdirAll(path, baseMode); err != nil {
		return fmt.Errorf("making the pods' directory: %w", err)
	}
	if err := os.Chmod(path, baseMode); err != nil {
		return fmt.Errorf("opening the pods' directory to other users: %w", err)
	}
	return nil
}

// reachable tells whether every user can traverse the directory and all those
// above it.
func reachable(directory string) bool {
	for {
		info, err := os.Stat(directory)
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if directory == "/" {
			return true
		}
		directory = filepath.Dir(directory)
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
