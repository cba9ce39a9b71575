package owneddir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MarkerName is the file that marks a directory as taken.
const MarkerName = ".hollowfleet-directory"

const (
	markerVersion = 1
	// markerLimit bounds how much of a marker is read, in bytes.
	markerLimit = 4 << 10
	// named bounds how many files an error names.
	named = 3
)

// errCopy is wrapped when a directory carries the marker of another.
var errCopy = fmt.Errorf("%w: it is a copy, or was restored: its %s names another directory, so its files were not made by this program; remove it yourself", ErrUnsafe, MarkerName)

// marker is the content of the file.
type marker struct {
	// Kind says what the directory is for.
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	ID      string `json:"id"`
	// Inode is the directory's. A copy of the directory has another one.
	Inode uint64 `json:"inode"`
	// Made says that Take made the directory.
	Made bool `json:"made"`
}

// markEmpty marks an empty directory. A marker without content was left by a process that was killed before it made
// anything else, and is filled in.
func (d *Directory) markEmpty(kind string, made bool) error {
	err := d.lockMarker()
	if errors.Is(err, ErrNoMarker) {
		if err := d.refuseOthers(); err != nil {
			return err
		}
		err = d.createMarker()
	}
	if err != nil {
		return err
	}
	content, err := d.markerContent()
	if err != nil {
		return err
	}
	if len(content) > 0 {
		if _, err := d.checkMarker(content, kind); err != nil {
			return err
		}
		return ErrTaken
	}
	if err := d.refuseOthers(); err != nil {
		// Another process put files there after this one had found it empty.
		return errors.Join(err, unix.Unlinkat(d.descriptor(), MarkerName, 0))
	}
	return d.newMarker(kind, made)
}

func (d *Directory) createMarker() error {
	fd, err := unix.Openat(d.descriptor(), MarkerName, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EEXIST) {
		return ErrBusy
	}
	if err != nil {
		return fmt.Errorf("making %s: %w", MarkerName, err)
	}
	return d.lockFile(fd)
}

// lockMarker opens the marker and locks it.
func (d *Directory) lockMarker() error {
	fd, err := unix.Openat(d.descriptor(), MarkerName, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return ErrNoMarker
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", MarkerName, err)
	}
	return d.lockFile(fd)
}

// lockFile locks the marker that fd is open on, if it is still the directory's. The kernel gives the lock back when
// this process ends.
func (d *Directory) lockFile(fd int) error {
	d.lock = os.NewFile(uintptr(fd), MarkerName)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	} else if err != nil {
		return fmt.Errorf("locking %s: %w", MarkerName, err)
	}
	var locked, there unix.Stat_t
	if err := unix.Fstat(fd, &locked); err != nil {
		return fmt.Errorf("reading %s: %w", MarkerName, err)
	}
	if locked.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w: %s is not a file", ErrUnsafe, MarkerName)
	}
	if err := unix.Fstatat(d.descriptor(), MarkerName, &there, unix.AT_SYMLINK_NOFOLLOW); err != nil || there.Ino != locked.Ino || there.Dev != locked.Dev {
		return ErrBusy
	}
	return nil
}

func (d *Directory) markerContent() ([]byte, error) {
	content, err := io.ReadAll(io.NewSectionReader(d.lock, 0, math.MaxInt64))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", MarkerName, err)
	}
	if len(content) > markerLimit {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrUnsafe, MarkerName, markerLimit)
	}
	return bytes.TrimSpace(content), nil
}

// readMarker reads the locked marker of a directory of that kind.
func (d *Directory) readMarker(kind string) error {
	content, err := d.markerContent()
	if err != nil {
		return err
	}
	if len(content) == 0 {
		// Take was killed before it made anything else.
		d.marker = marker{Kind: kind}
		if err := d.refuseOthers(); err != nil {
			return fmt.Errorf("%w: %s is empty, but other files are there", ErrUnsafe, MarkerName)
		}
		return nil
	}
	d.marker, err = d.checkMarker(content, kind)
	return err
}

// checkMarker checks that a marker is one of that kind, and of this directory.
func (d *Directory) checkMarker(content []byte, kind string) (marker, error) {
	m, err := decodeMarker(content, kind)
	if err != nil {
		return m, err
	}
	inode, err := d.readInode()
	if err == nil && m.Inode != inode {
		err = errCopy
	}
	return m, err
}

func decodeMarker(content []byte, kind string) (marker, error) {
	var m marker
	if err := json.Unmarshal(content, &m); err != nil {
		return m, fmt.Errorf("%w: reading %s: %w", ErrUnsafe, MarkerName, err)
	}
	switch {
	case m.Version != markerVersion:
		return m, fmt.Errorf("%w: %s is of version %d, this program knows version %d: use the program that took the directory", ErrUnsafe, MarkerName, m.Version, markerVersion)
	case m.Kind != kind:
		return m, fmt.Errorf("%w: it is a directory of a %.40q, not of a %s", ErrUnsafe, m.Kind, kind)
	}
	return m, nil
}

func (d *Directory) newMarker(kind string, made bool) error {
	inode, err := d.readInode()
	if err != nil {
		return err
	}
	d.marker = marker{Kind: kind, Version: markerVersion, ID: newID(), Inode: inode, Made: made}
	return d.writeMarker()
}

func (d *Directory) writeMarker() error {
	content, err := json.Marshal(d.marker)
	if err != nil {
		return fmt.Errorf("writing %s: %w", MarkerName, err)
	}
	if err := d.lock.Truncate(0); err != nil {
		return fmt.Errorf("writing %s: %w", MarkerName, err)
	}
	if _, err := d.lock.WriteAt(append(content, '\n'), 0); err != nil {
		return fmt.Errorf("writing %s: %w", MarkerName, err)
	}
	return nil
}

// refuseOthers wants nothing but the marker in the directory.
func (d *Directory) refuseOthers() error {
	names, err := listEntries(d.descriptor())
	if err != nil {
		return err
	}
	var others []string
	for _, name := range names {
		if name != MarkerName {
			others = append(others, fmt.Sprintf("%.60q", name))
		}
	}
	if len(others) == 0 {
		return nil
	}
	list := strings.Join(others[:min(named, len(others))], ", ")
	if more := len(others) - named; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%w: %s", ErrNotEmpty, list)
}

func (d *Directory) readInode() (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(d.descriptor(), &stat); err != nil {
		return 0, fmt.Errorf("reading its inode: %w", err)
	}
	return stat.Ino, nil
}
