// Package owneddir takes a directory for the files of one program, and removes those files again without touching any
// other.
//
// A directory is taken only if it is missing or empty, and then carries a marker. Removal needs that marker. It removes
// entries that are on a list of names, and nothing else; it follows no symbolic link and enters no mount point. All
// that it does is relative to open directories, so an entry, a parent or the directory itself that is exchanged for a
// link meanwhile leads it nowhere else.
package owneddir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotEmpty is wrapped when a directory without a marker holds files.
	ErrNotEmpty = errors.New("it is not empty, and what it holds was not made by this program")
	// ErrTaken is wrapped when a directory is marked already.
	ErrTaken = errors.New("it is taken already")
	// ErrNoMarker is wrapped when a directory carries no marker.
	ErrNoMarker = errors.New("it carries no " + MarkerName)
	// ErrUnsafe is wrapped when a directory is not one that this user alone decides about.
	ErrUnsafe = errors.New("it cannot be used")
	// ErrBusy is wrapped when another process takes or removes the directory at this moment.
	ErrBusy = errors.New("another process takes or removes it at this moment: try again when that has ended")
)

// Directory is a taken directory. No other process can take, open or remove it before Close.
type Directory struct {
	path     string
	dir      *os.File
	lock     *os.File
	marker   marker
	mount    uint64
	patterns []pattern
}

// Take marks a directory that is missing or empty as one of that kind. A missing one is made with perm, and so are
// missing parents. The error wraps ErrNotEmpty, ErrTaken, ErrUnsafe or ErrBusy.
func Take(path, kind string, perm fs.FileMode) (*Directory, error) {
	d, err := takeDirectory(path, kind, perm)
	if err != nil {
		return nil, fmt.Errorf("taking the directory %s: %w", path, err)
	}
	return d, nil
}

func takeDirectory(path, kind string, perm fs.FileMode) (*Directory, error) {
	made, err := makeDirectory(path, perm)
	if err != nil {
		return nil, err
	}
	d, err := openDirectory(path)
	if err != nil {
		return nil, err
	}
	if err := d.markEmpty(kind, made); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// makeDirectory reports whether it made the directory, or found one.
func makeDirectory(path string, perm fs.FileMode) (made bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), perm); err != nil {
		return false, err
	}
	err = os.Mkdir(path, perm)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// Open opens a directory that was taken as one of that kind. The error wraps fs.ErrNotExist if there is no directory,
// ErrNoMarker if it was not taken, and ErrUnsafe or ErrBusy.
func Open(path, kind string) (*Directory, error) {
	d, err := openDirectory(path)
	if err == nil {
		if err = d.openMarked(kind); err == nil {
			return d, nil
		}
		d.Close()
	}
	return nil, fmt.Errorf("opening the directory %s: %w", path, err)
}

func (d *Directory) openMarked(kind string) error {
	if err := d.lockMarker(); err != nil {
		return err
	}
	return d.readMarker(kind)
}

// TakeOrOpen opens a directory of that kind, or takes one that is missing or empty. One that was copied or restored
// becomes a directory of its own: who calls this continues to use what is in it.
func TakeOrOpen(path, kind string, perm fs.FileMode) (*Directory, error) {
	d, err := Open(path, kind)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrNoMarker):
		return Take(path, kind, perm)
	case errors.Is(err, errCopy):
		return adoptDirectory(path, kind)
	case err == nil && d.marker.Version == 0:
		// Take was killed before it wrote the marker. Without its content the directory could not be opened once
		// there are files in it.
		if err := d.newMarker(kind, false); err != nil {
			d.Close()
			return nil, fmt.Errorf("taking the directory %s: %w", path, err)
		}
	}
	return d, err
}

func adoptDirectory(path, kind string) (*Directory, error) {
	d, err := openDirectory(path)
	if err == nil {
		if err = d.lockMarker(); err == nil {
			err = d.newMarker(kind, false)
		}
		if err == nil {
			return d, nil
		}
		d.Close()
	}
	return nil, fmt.Errorf("taking the directory %s: %w", path, err)
}

// openDirectory opens a directory that belongs to this user, without following a link at the end of the path.
func openDirectory(path string) (*Directory, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		if info, lstatErr := os.Lstat(path); lstatErr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%w: it is a symbolic link: name the directory that the link leads to", ErrUnsafe)
		}
	}
	if err != nil {
		return nil, err
	}
	d := &Directory{path: path, dir: os.NewFile(uintptr(fd), path)}
	if err := d.checkPermissions(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// checkPermissions refuses a directory in which other users could put or exchange files: this program keeps keys there, and
// believes what it reads there.
func (d *Directory) checkPermissions() error {
	var stat unix.Stat_t
	if err := unix.Fstat(d.descriptor(), &stat); err != nil {
		return fmt.Errorf("reading its owner: %w", err)
	}
	if int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to user %d, not to user %d who runs this command", ErrUnsafe, stat.Uid, os.Geteuid())
	}
	if stat.Mode&unix.S_IWOTH != 0 {
		return fmt.Errorf("%w: every user may write to it: choose another, or take that right away with chmod o-w", ErrUnsafe)
	}
	mount, err := mountOf(d.descriptor())
	d.mount = mount
	return err
}

func (d *Directory) descriptor() int { return int(d.dir.Fd()) }

// ID is the directory's own, from when it was taken.
func (d *Directory) ID() string { return d.marker.ID }

// Path is where the directory was found.
func (d *Directory) Path() string { return d.path }

// Close lets other processes have the directory.
func (d *Directory) Close() {
	if d.lock != nil {
		d.lock.Close()
	}
	d.dir.Close()
}

// CountAsMade makes Remove remove the directory itself too if it is empty then, although Take found it.
func (d *Directory) CountAsMade() error {
	d.marker.Made = true
	return d.writeMarker()
}

// Remove removes the entries of the directory that match the patterns, then the marker, and then the directory itself
// if it is empty and Take made it. It returns the paths of what it left because this program did not make it. After an
// error the marker is still there, so that the removal can be repeated.
//
// A pattern is a path below the directory, with path.Match's wildcards within each element. It stands for a regular
// file or a socket, and for the directories that lead there, which are removed if they become empty. With "/" at its
// end it stands for a directory, which is removed if it is empty; with "/**" for a directory with all that it holds.
func (d *Directory) Remove(patterns []string) (left []string, err error) {
	if d.patterns, err = parsePatterns(patterns); err != nil {
		return nil, err
	}
	r := &removal{directory: d}
	r.sweepDirectory(d.descriptor(), "", false)
	slices.Sort(r.left)
	if err := errors.Join(r.failed...); err != nil {
		return r.left, fmt.Errorf("removing files in %s: %w", d.path, err)
	}
	if err := d.removeItself(); err != nil {
		return r.left, fmt.Errorf("removing the directory %s: %w", d.path, err)
	}
	return r.left, nil
}

// RemoveEntries removes the entries that match the patterns, as Remove does, and keeps the marker and everything else.
func (d *Directory) RemoveEntries(patterns []string) (err error) {
	if d.patterns, err = parsePatterns(patterns); err != nil {
		return err
	}
	r := &removal{directory: d}
	r.sweepDirectory(d.descriptor(), "", false)
	if err := errors.Join(r.failed...); err != nil {
		return fmt.Errorf("removing files in %s: %w", d.path, err)
	}
	return nil
}

// RemoveTree removes one directory in the directory with all that it holds, and keeps the marker. The name must be one
// that only this program gives. It returns the paths of what it left: an entry of that name which is not a directory,
// and whatever is on another mount. That there is no such entry is no error.
func (d *Directory) RemoveTree(name string) (left []string, err error) {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return nil, fmt.Errorf("removing files in %s: %q is not the name of an entry", d.path, name)
	}
	r := &removal{directory: d}
	r.removeEntry(d.descriptor(), name, name, matches{directory: true, whole: true})
	slices.Sort(r.left)
	if err := errors.Join(r.failed...); err != nil {
		return r.left, fmt.Errorf("removing files in %s: %w", d.path, err)
	}
	return r.left, nil
}

// removeItself removes the marker, and the directory that Take made. One that has been moved away, or exchanged for
// another, stays.
func (d *Directory) removeItself() error {
	if err := unix.Unlinkat(d.descriptor(), MarkerName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	if !d.marker.Made {
		return nil
	}
	own, err := d.dir.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Lstat(d.path); err != nil || !os.SameFile(own, there) {
		return nil //nolint:nilerr // What is there now is another's.
	}
	err = unix.Rmdir(d.path)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func newID() string { return rand.Text() }
