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
	// insideName is the directory below the data directory that holds the
	// volumes of all pods, or keeps them while no podhost runs.
	insideName = "pods"
	// recordName is the file in the data directory with the path of a base
	// directory outside it, ownerName the file there with the way back.
	recordName = "pods-directory"
	ownerName  = ".data-directory"
	// outsidePrefix begins the names of base directories outside.
	outsidePrefix = "hollowfleet-pods-"
	// baseMode lets other users pass but not list.
	baseMode = 0o711
)

// Base returns the directory for the volumes of all pods and makes it. Pods may
// run as users that cannot reach the data directory, for instance below a home
// directory. If this process can switch users, the base then lies in a
// directory for temporary files, and the data directory remembers where, so
// that paths stay the same from one podhost to the next.
func Base(dataDir string, switchesUsers bool) (string, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("finding the data directory: %w", err)
	}
	recorded, err := readRecord(dataDir)
	if err != nil {
		return "", err
	}
	inside := filepath.Join(dataDir, insideName)
	switch {
	case isOurs(recorded):
		return recorded, nil // the last podhost was killed
	case !switchesUsers || reachable(dataDir):
		return inside, makeBase(inside)
	}
	for _, parent := range temporary() {
		removeOrphans(parent)
	}
	if recorded != "" && comeBack(inside, recorded) {
		return recorded, nil
	}
	return makeOutside(dataDir, inside)
}

// Leave moves a base directory from outside into the data directory, so that
// nothing is left elsewhere while no podhost runs.
func Leave(dataDir string) error {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return fmt.Errorf("finding the data directory: %w", err)
	}
	recorded, err := readRecord(dataDir)
	if err != nil || !isOurs(recorded) {
		return err
	}
	inside := filepath.Join(dataDir, insideName)
	if err := os.Remove(inside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("moving the pods' directory: %w", err)
	}
	err = os.Rename(recorded, inside)
	if errors.Is(err, syscall.EXDEV) {
		return nil // it is found again, or removed by Clean
	}
	if err != nil {
		return fmt.Errorf("moving the pods' directory: %w", err)
	}
	return nil
}

// Clean removes what Base made for this data directory, inside and outside it.
// No podhost may be using it.
func Clean(dataDir string) error {
	recorded, err := readRecord(dataDir)
	if isOurs(recorded) {
		err = errors.Join(err, os.RemoveAll(recorded))
	}
	return errors.Join(err,
		os.RemoveAll(filepath.Join(dataDir, insideName)),
		os.RemoveAll(filepath.Join(dataDir, recordName)))
}

// makeOutside makes a new base directory outside the data directory. What the
// data directory keeps from an earlier one is moved there.
func makeOutside(dataDir, inside string) (string, error) {
	for _, parent := range temporary() {
		if !reachable(parent) {
			continue
		}
		base, err := os.MkdirTemp(parent, outsidePrefix)
		if err != nil {
			continue
		}
		if err := moveOut(inside, base); err != nil {
			return "", err
		}
		// The way back comes last: without it the directory is no orphan.
		err = errors.Join(
			makeBase(base),
			os.WriteFile(filepath.Join(dataDir, recordName), []byte(base+"\n"), 0o600),
			os.WriteFile(filepath.Join(base, ownerName), []byte(dataDir+"\n"), 0o600))
		if err != nil {
			return "", fmt.Errorf("making the pods' directory: %w", err)
		}
		return base, nil
	}
	return "", fmt.Errorf("no directory for pods: other users can reach neither %s nor a directory for temporary files", dataDir)
}

// moveOut puts what the data directory keeps in place of the new directory. If
// they are on different file systems it stays where it is.
func moveOut(inside, base string) error {
	if _, err := os.Lstat(inside); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(base); err != nil {
		return fmt.Errorf("moving the pods' directory: %w", err)
	}
	err := os.Rename(inside, base)
	if errors.Is(err, syscall.EXDEV) {
		err = os.Mkdir(base, baseMode)
	}
	if err != nil {
		return fmt.Errorf("moving the pods' directory: %w", err)
	}
	return nil
}

// comeBack moves the base directory to where it was, if nobody else has taken
// the name.
func comeBack(inside, recorded string) bool {
	if _, err := os.Lstat(recorded); !errors.Is(err, fs.ErrNotExist) || !reachable(filepath.Dir(recorded)) {
		return false
	}
	return os.Rename(inside, recorded) == nil
}

// removeOrphans removes base directories whose data directories are gone, or
// have another one by now: those of podhosts that were killed before their
// data directories were removed.
func removeOrphans(parent string) {
	bases, err := filepath.Glob(filepath.Join(parent, outsidePrefix+"*"))
	if err != nil {
		return
	}
	for _, base := range bases {
		if !isOurs(base) {
			continue
		}
		owner, err := os.ReadFile(filepath.Join(base, ownerName))
		if err != nil {
			continue
		}
		recorded, err := readRecord(strings.TrimSpace(string(owner)))
		if err == nil && recorded != base {
			// What cannot be removed now is tried again by the next podhost.
			_ = os.RemoveAll(base)
		}
	}
}

func temporary() []string { return []string{os.TempDir(), "/tmp", "/var/tmp"} }

// readRecord returns the path of a base directory outside the data directory,
// or "" if there never was one.
func readRecord(dataDir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dataDir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading where the pods' directory is: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// isOurs tells whether the path is a base directory that this user made. In a
// directory for temporary files somebody else may have taken the name.
func isOurs(path string) bool {
	if !filepath.IsAbs(path) || !strings.HasPrefix(filepath.Base(path), outsidePrefix) {
		return false
	}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(status.Uid) == os.Geteuid()
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
