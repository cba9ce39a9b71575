package owneddir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// removal removes what this program made, and collects the rest.
type removal struct {
	directory *Directory
	left      []string
	failed    []error
}

func (r *removal) noteLeft(within string) {
	r.left = append(r.left, filepath.Join(r.directory.path, within))
}

func (r *removal) noteFailure(within string, err error) {
	r.failed = append(r.failed, fmt.Errorf("%s: %w", within, err))
}

// sweepDirectory removes the known entries of the open directory that is at the path within. With whole set all of them are.
func (r *removal) sweepDirectory(fd int, within string, whole bool) {
	names, err := listEntries(fd)
	if err != nil {
		r.noteFailure(within, err)
		return
	}
	for _, name := range names {
		if within == "" && name == MarkerName {
			continue
		}
		entry := path.Join(within, name)
		match := matches{any: whole, directory: whole, whole: whole}
		if !whole {
			match = r.directory.matchEntry(entry)
		}
		r.removeEntry(fd, name, entry, match)
	}
}

// removeEntry removes one entry of the open directory if it is known and of the known type.
func (r *removal) removeEntry(fd int, name, within string, known matches) {
	var stat unix.Stat_t
	err := unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return
	}
	if err != nil {
		r.noteFailure(within, err)
		return
	}
	kind := stat.Mode & unix.S_IFMT
	switch {
	case kind == unix.S_IFDIR && known.directory:
		r.removeDirectory(fd, name, within, known.whole)
	case known.any || known.file && (kind == unix.S_IFREG || kind == unix.S_IFSOCK):
		r.removeFile(fd, name, within)
	default:
		r.noteLeft(within)
	}
}

// removeFile removes a name; of a link, not what it leads to.
func (r *removal) removeFile(parent int, name, within string) {
	err := unix.Unlinkat(parent, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EISDIR):
		r.noteLeft(within) // Another file is mounted on it, or a directory took its place.
	default:
		r.noteFailure(within, err)
	}
}

// removeDirectory empties a directory and removes it if nothing is left in it.
func (r *removal) removeDirectory(parent int, name, within string, whole bool) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		r.noteLeft(within) // Something else took its place.
		return
	}
	if err != nil {
		r.noteFailure(within, err)
		return
	}
	defer unix.Close(fd)
	mount, err := mountOf(fd)
	if err != nil {
		r.noteFailure(within, err)
		return
	}
	if mount != r.directory.mount {
		r.noteLeft(within)
		return
	}
	before := len(r.left) + len(r.failed)
	r.sweepDirectory(fd, within, whole)
	if len(r.left)+len(r.failed) > before {
		return
	}
	err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EBUSY):
		r.noteLeft(within)
	default:
		r.noteFailure(within, err)
	}
}

// matches says as what an entry is known: as a file, as an entry of any type, or as a directory, perhaps with all that
// it holds.
type matches struct{ file, any, directory, whole bool }

// pattern is one of Remove's, split into its elements.
type pattern struct {
	elements []string
	// directory says that it stands for a directory, whole for one with all that it holds.
	directory, whole bool
}

func parsePatterns(texts []string) ([]pattern, error) {
	var patterns []pattern
	for _, text := range texts {
		var p pattern
		rest, whole := strings.CutSuffix(text, "/**")
		rest, directory := strings.CutSuffix(rest, "/")
		p.whole, p.directory = whole, whole || directory
		p.elements = strings.Split(rest, "/")
		for _, element := range p.elements {
			if element == "" || element == "." || element == ".." || element == "**" {
				return nil, fmt.Errorf("pattern %q: element %q", text, element)
			}
			if _, err := path.Match(element, ""); err != nil {
				return nil, fmt.Errorf("pattern %q: %w", text, err)
			}
		}
		patterns = append(patterns, p)
	}
	return patterns, nil
}

// matchEntry compares the path of an entry with the patterns.
func (d *Directory) matchEntry(within string) matches {
	var found matches
	elements := strings.Split(within, "/")
	for _, p := range d.patterns {
		if len(elements) > len(p.elements) || !matchAll(p.elements, elements) {
			continue
		}
		complete := len(elements) == len(p.elements)
		found.directory = found.directory || p.directory || !complete
		found.file = found.file || complete && !p.directory
		found.whole = found.whole || complete && p.whole
	}
	return found
}

func matchAll(patterns, elements []string) bool {
	for i, element := range elements {
		if matched, err := path.Match(patterns[i], element); err != nil || !matched {
			return false
		}
	}
	return true
}

// listEntries lists the names in an open directory, from its beginning.
func listEntries(fd int) ([]string, error) {
	// A file of its own: reading moves the position of the one that is open.
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listing the directory: %w", err)
	}
	dir := os.NewFile(uintptr(again), ".")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing the directory: %w", err)
	}
	return names, nil
}

// mountOf returns the number of the mount that an open directory is on. A bind mount has the device number of the file
// system that it shows, so that one would not do.
func mountOf(fd int) (uint64, error) {
	file, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, fmt.Errorf("finding its mount: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if number, found := strings.CutPrefix(lines.Text(), "mnt_id:"); found {
			return strconv.ParseUint(strings.TrimSpace(number), 10, 64)
		}
	}
	return 0, errors.New("finding its mount: the kernel does not tell")
}
