// Package poddir keeps the directory in which each pod, and each pack of nodes, has one of its own, named by its UID. It carries the marker
// of package owneddir, and nothing is removed from it but what has such a name.
package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

const (
	kind = "podhost"
	// insideName is the directory below the data directory.
	insideName = "pods"
	// ownerName is a file that earlier versions made.
	ownerName = ".data-directory"
	// mode lets other users pass but not list.
	mode = 0o711
)

// uids matches the UIDs that an API server gives.
var uids = func() string {
	digits := func(n int) string { return strings.Repeat("[0-9a-f]", n) }
	return strings.Join([]string{digits(8), digits(4), digits(4), digits(4), digits(12)}, "-")
}()

// Directory is the directory of a podhost. No other podhost can have it before Close.
type Directory struct{ owned *owneddir.Directory }

// Open makes the directory in the data directory, or opens the one that an earlier podhost made. It refuses any other.
func Open(dataDir string) (*Directory, error) {
	path, err := filepath.Abs(filepath.Join(dataDir, insideName))
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	owned, err := owneddir.TakeOrOpen(path, kind, mode)
	if isForeign(err) || errors.Is(err, owneddir.ErrNotEmpty) {
		err = fmt.Errorf("%w; move it elsewhere", err)
	}
	if err != nil {
		return nil, fmt.Errorf("making the pods' directory: %w", err)
	}
	// The permissions given when it is made are subject to the file creation mask.
	if err := os.Chmod(path, mode); err != nil {
		owned.Close()
		return nil, fmt.Errorf("setting the permissions of the pods' directory: %w", err)
	}
	return &Directory{owned}, nil
}

// Path is where the directory is.
func (d *Directory) Path() string { return d.owned.Path() }

// Close gives the directory back.
func (d *Directory) Close() { d.owned.Close() }

// List lists the UIDs that have a directory, and the paths of what has another name. Names that start with a dot are those of the
// podhost's own files.
func (d *Directory) List() (found []types.UID, others []string, err error) {
	entries, err := os.ReadDir(d.Path())
	if err != nil {
		return nil, nil, fmt.Errorf("listing the pods' directories: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case entry.IsDir() && isUID(name):
			found = append(found, types.UID(name))
		case !strings.HasPrefix(name, "."):
			others = append(others, filepath.Join(d.Path(), name))
		}
	}
	return found, others, nil
}

func isUID(name string) bool {
	matched, err := path.Match(uids, name)
	return err == nil && matched
}

// Remove removes the directory of a UID with all that it holds. What it must leave is named by the error.
func (d *Directory) Remove(uid types.UID) error {
	if !isUID(string(uid)) {
		return fmt.Errorf("removing the directory of a pod in %s: %q is not the UID of a pod", d.Path(), uid)
	}
	left, err := d.owned.RemoveTree(string(uid))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("removing the directory of pod %s: left in place, because no podhost made it, or another file system is mounted there: %s", uid, strings.Join(left, ", "))
	}
	return err
}

// Clean removes all that podhosts left in the data directory. It returns the paths of what it left because no podhost made it.
// No podhost may be using the data directory.
func Clean(dataDir string) (left []string, err error) {
	if dataDir, err = filepath.Abs(dataDir); err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	// An earlier version had logs and packs elsewhere.
	for _, name := range []string{insideName, "logs", "packs"} {
		leftThere, oneErr := clean(filepath.Join(dataDir, name))
		left, err = append(left, leftThere...), errors.Join(err, oneErr)
	}
	return left, err
}

func clean(path string) (left []string, err error) {
	owned, err := owneddir.Open(path, kind)
	switch {
	case err == nil:
		defer owned.Close()
		return owned.Remove([]string{ownerName, "." + ownerName + "-[0-9]*", uids + "/**"})
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, owneddir.ErrNoMarker) && isEmpty(path):
		return nil, nil
	case isForeign(err):
		return []string{path}, nil
	}
	return nil, err
}

// isForeign reports whether the error is that no podhost made the directory.
func isForeign(err error) bool {
	return errors.Is(err, owneddir.ErrNoMarker) || errors.Is(err, owneddir.ErrUnsafe) || errors.Is(err, unix.ENOTDIR)
}

func isEmpty(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0
}
