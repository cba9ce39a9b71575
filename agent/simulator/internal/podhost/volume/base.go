package volume

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
)

const (
	// insideName is the directory below the data directory that holds the
	// volumes of all pods, or keeps them while no podhost runs.
	insideName = "pods"
	// outsidePrefix starts the names of base directories outside.
	outsidePrefix = "hollowfleet-volumes-"
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
	killed, err := belongs(recorded.Base, dataDir)
	if err == nil && killed {
		killed, err = poddir.IsTaken(recorded.Base)
	}
	switch {
	case err != nil:
		return "", err
	case killed:
		// The last podhost was killed. Its data directory may have another name by now.
		return recorded.Base, writeOwner(recorded.Base, dataDir, recorded.ID)
	case !switchesUsers || reachable(dataDir):
		return inside, takeInside(inside)
	}
	for _, parent := range temporary() {
		removeOrphans(parent)
	}
	if recorded.ID == "" {
		recorded.ID = rand.Text()
	}
	if _, err := os.Lstat(inside); !errors.Is(err, fs.ErrNotExist) {
		// It must not be taken for an orphan at the moment when it is outside.
		if err := takeInside(inside); err != nil {
			return "", err
		}
		if err := writeOwner(inside, dataDir, recorded.ID); err != nil {
			return "", err
		}
		if comeBack(inside, recorded.Base) {
			return recorded.Base, nil
		}
	}
	return makeOutside(dataDir, inside, recorded.ID)
}

// Leave moves a base directory from outside into the data directory, so that
// nothing is left elsewhere while no podhost runs.
func Leave(dataDir string) error {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return fmt.Errorf("finding the data directory: %w", err)
	}
	recorded, err := readRecord(dataDir)
	if err != nil {
		return err
	}
	if ours, err := belongs(recorded.Base, dataDir); err != nil || !ours {
		return err
	}
	inside := filepath.Join(dataDir, insideName)
	err = unix.Rmdir(inside)
	if err == nil || errors.Is(err, unix.ENOENT) {
		err = os.Rename(recorded.Base, inside)
	}
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.ENOTDIR):
		return nil // it is found again, or removed by Clean
	case err != nil:
		return fmt.Errorf("moving the pods' directory: %w", err)
	}
	return nil
}

// Clean removes what Base made for this data directory, inside and outside it.
// It returns the paths of what it left because no podhost made it. No podhost
// may be using the data directory.
func Clean(dataDir string) (left []string, err error) {
	dataDir, err = filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	recorded, err := readRecord(dataDir)
	if err != nil {
		return nil, err
	}
	bases := []string{filepath.Join(dataDir, insideName)}
	ours, err := belongs(recorded.Base, dataDir)
	if err != nil {
		return nil, err
	}
	if ours {
		bases = append(bases, recorded.Base)
	}
	for _, base := range bases {
		leftThere, err := removeBase(base)
		left = append(left, leftThere...)
		if err != nil {
			return left, err
		}
	}
	// Without the record the base outside could not be found again, so it goes last.
	path := filepath.Join(dataDir, recordName)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return left, nil //nolint:nilerr // There is none, or it is not ours.
	}
	return left, os.Remove(path)
}

func removeBase(base string) (left []string, err error) {
	return poddir.Clean(base, ownerName, "."+ownerName+"-[0-9]*")
}

// takeInside makes the base directory in the data directory, and accepts one
// that a podhost made there.
func takeInside(inside string) error {
	if err := poddir.Take(inside, baseMode); err != nil {
		return fmt.Errorf("making the pods' directory: %w", err)
	}
	return nil
}

// makeOutside makes a new base directory outside the data directory. What the
// data directory keeps from an earlier one is moved there.
func makeOutside(dataDir, inside, id string) (string, error) {
	for _, parent := range temporary() {
		if !reachable(parent) {
			continue
		}
		base, err := os.MkdirTemp(parent, outsidePrefix)
		if err != nil {
			continue
		}
		// The record comes first: a directory that its owner has no record of is taken for an orphan.
		if err := writeRecord(dataDir, record{Base: base, ID: id}); err != nil {
			return "", err
		}
		if err := moveOut(inside, base); err != nil {
			return "", err
		}
		if err := poddir.TakeNew(base, baseMode); err != nil {
			return "", fmt.Errorf("making the pods' directory: %w", err)
		}
		return base, writeOwner(base, dataDir, id)
	}
	return "", fmt.Errorf("no directory for pods: other users can reach neither %s nor a directory for temporary files", dataDir)
}

// moveOut puts what the data directory keeps in place of the new directory. If
// they are on different file systems it stays where it is.
func moveOut(inside, base string) error {
	if _, err := os.Lstat(inside); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unix.Rmdir(base); err != nil {
		return fmt.Errorf("moving the pods' directory: %w", err)
	}
	err := os.Rename(inside, base)
	if errors.Is(err, unix.EXDEV) {
		err = os.Mkdir(base, baseMode)
	}
	if err != nil {
		return fmt.Errorf("moving the pods' directory: %w", err)
	}
	return nil
}

// comeBack moves the base directory to where it was, if no other user has taken
// the name.
func comeBack(inside, recorded string) bool {
	if !hasOurName(recorded) || !reachable(filepath.Dir(recorded)) {
		return false
	}
	if _, err := os.Lstat(recorded); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return os.Rename(inside, recorded) == nil
}

func temporary() []string { return []string{os.TempDir(), "/tmp", "/var/tmp"} }

// hasOurName reports whether the path could be that of a base directory outside.
func hasOurName(path string) bool {
	return filepath.IsAbs(path) && strings.HasPrefix(filepath.Base(path), outsidePrefix)
}

// reachable reports whether every user can traverse the directory and all those
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
