// Package poddir keeps directories in which every pod has one of its own, named by the pod's UID: the directory for
// volumes and that for logs. They carry the marker of package owneddir, and only a pod's directory in a marked one is
// ever removed.
package poddir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

const kind = "podhost"

// pods matches the UIDs that an API server gives.
var pods = func() string {
	digits := func(n int) string { return strings.Repeat("[0-9a-f]", n) }
	return strings.Join([]string{digits(8), digits(4), digits(4), digits(4), digits(12)}, "-")
}()

// lock lets one goroutine at a time open a directory, because owneddir refuses the others.
var lock sync.Mutex

// Take marks a directory that is missing or empty, and accepts one that a podhost marked before. It refuses any other.
func Take(path string, perm fs.FileMode) error {
	return take(path, perm, func(*owneddir.Directory) error { return nil })
}

// TakeNew marks a directory that the caller has just made, so that Clean removes it too.
func TakeNew(path string, perm fs.FileMode) error {
	return take(path, perm, (*owneddir.Directory).CountAsMade)
}

func take(path string, perm fs.FileMode, then func(*owneddir.Directory) error) error {
	lock.Lock()
	defer lock.Unlock()
	owned, err := owneddir.TakeOrOpen(path, kind, perm)
	if isForeign(err) || errors.Is(err, owneddir.ErrNotEmpty) {
		return fmt.Errorf("%w; move it elsewhere", err)
	}
	if err != nil {
		return err
	}
	defer owned.Close()
	// The permissions given when it is made are subject to the file creation mask.
	if err := os.Chmod(path, perm); err != nil {
		return fmt.Errorf("setting the permissions of a directory: %w", err)
	}
	return then(owned)
}

// IsTaken reports whether a podhost marked the directory.
func IsTaken(path string) (bool, error) {
	lock.Lock()
	defer lock.Unlock()
	owned, err := owneddir.Open(path, kind)
	switch {
	case errors.Is(err, fs.ErrNotExist), isForeign(err):
		return false, nil
	case err != nil:
		return false, err
	}
	owned.Close()
	return true, nil
}

// isForeign reports whether the error is that no podhost made the directory.
func isForeign(err error) bool {
	return errors.Is(err, owneddir.ErrNoMarker) || errors.Is(err, owneddir.ErrUnsafe) || errors.Is(err, unix.ENOTDIR)
}

// List lists the pods that have a directory, and the paths of what is not a pod's. Names that start with a dot are
// those of the podhost's own files.
func List(path string) (uids []types.UID, others []string, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the pods' directories: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case entry.IsDir() && isPod(name):
			uids = append(uids, types.UID(name))
		case !strings.HasPrefix(name, "."):
			others = append(others, filepath.Join(path, name))
		}
	}
	return uids, others, nil
}

func isPod(name string) bool {
	matched, err := path.Match(pods, name)
	return err == nil && matched
}

// Remove removes a pod's directory with all that it holds. What it must leave is named by the error.
func Remove(path string, uid types.UID) error {
	if !isPod(string(uid)) {
		return fmt.Errorf("removing the directory of a pod in %s: %q is not the UID of a pod", path, uid)
	}
	lock.Lock()
	defer lock.Unlock()
	owned, err := owneddir.Open(path, kind)
	if err != nil {
		return err
	}
	defer owned.Close()
	left, err := owned.RemoveTree(string(uid))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("removing the directory of pod %s: left in place, because no podhost made it, or another file system is mounted there: %s", uid, strings.Join(left, ", "))
	}
	return err
}

// Clean removes the directories of all pods, the files with these names, and the directory itself if it is empty then
// and a podhost made it. It returns the paths of what it left because no podhost made it.
func Clean(path string, files ...string) (left []string, err error) {
	lock.Lock()
	defer lock.Unlock()
	owned, err := owneddir.Open(path, kind)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, owneddir.ErrNoMarker) && isEmpty(path):
		return nil, nil
	case isForeign(err):
		return []string{path}, nil
	case err != nil:
		return nil, err
	}
	defer owned.Close()
	return owned.Remove(append(files, pods+"/**"))
}

func isEmpty(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0
}
