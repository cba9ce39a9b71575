package poddir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/atomicfile"
	"github.com/hollowfleet/hollowfleet/internal/owneddir"
)

const (
	// recordName is the file in the data directory that names a directory outside.
	recordName = "pods-directory"
	// outsidePrefix starts the names of directories outside.
	outsidePrefix = "hollowfleet-volumes-"
)

// record is the directory that a podhost has made outside its data directory.
type record struct {
	Base string `json:"base"`
	// ID is that of the directory's marker.
	ID string `json:"id"`
	// Inode is that of the data directory: a copy of it has the record, but not the inode. An earlier version left it out.
	Inode uint64 `json:"inode,omitempty"`
}

// readRecord returns what the data directory records. It is empty if there is nothing, or if another program wrote the file.
func readRecord(dataDir string) (r record, err error) {
	content, err := os.ReadFile(filepath.Join(dataDir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading where the pods' directory is: %w", err)
	}
	if json.Unmarshal(content, &r) != nil || !filepath.IsAbs(r.Base) || !strings.HasPrefix(filepath.Base(r.Base), outsidePrefix) {
		return record{}, nil //nolint:nilerr // Another program wrote it.
	}
	return r, nil
}

func (r record) write(dataDir string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing where the pods' directory is: %w", err)
	}
	return atomicfile.Write(filepath.Join(dataDir, recordName), append(content, '\n'), 0o600)
}

// open opens the recorded directory. It returns nil if that is not there, or not the one that was made for this data directory: where it
// lies every user can make files.
func (r record) open(dataDir string) (owned *owneddir.Directory, err error) {
	if r.Base == "" || r.Inode == 0 || r.Inode != inodeOf(dataDir) {
		return nil, nil
	}
	owned, err = owneddir.Open(r.Base, kind)
	if errors.Is(err, fs.ErrNotExist) || isForeign(err) {
		return nil, nil
	}
	if err == nil && owned.ID() != r.ID {
		owned.Close()
		return nil, nil
	}
	return owned, err
}

// moveOut moves the directory out of the data directory, to where it was last if nobody has taken the name: nodes remember paths.
func moveOut(dataDir string, recorded record) (*owneddir.Directory, error) {
	if isOlder := recorded.Base != "" && recorded.Inode == 0; isOlder && isMarked(recorded.Base) {
		return nil, fmt.Errorf("an earlier version that was killed has left %s: start and end it again, or remove that directory", recorded.Base)
	}
	inside := filepath.Join(dataDir, insideName)
	owned, err := take(inside)
	if err != nil {
		return nil, err
	}
	id := owned.ID()
	owned.Close()
	candidates := []string{recorded.Base}
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		candidates = append(candidates, filepath.Join(parent, outsidePrefix+rand.Text()))
	}
	for _, base := range candidates {
		if _, err := os.Lstat(base); base == "" || !errors.Is(err, fs.ErrNotExist) || !reachable(filepath.Dir(base)) {
			continue
		}
		// The record comes first: what nobody has a record of would stay.
		r := record{Base: base, ID: id, Inode: inodeOf(dataDir)}
		if err := r.write(dataDir); err != nil {
			return nil, err
		}
		if err := os.Rename(inside, base); errors.Is(err, unix.EXDEV) {
			return makeOutside(dataDir, r)
		}
		if owned, err := r.open(dataDir); owned != nil || err != nil {
			return owned, err
		}
	}
	return nil, fmt.Errorf("other users can reach neither %s nor a directory for temporary files", dataDir)
}

func isMarked(path string) bool {
	owned, err := owneddir.Open(path, kind)
	if err == nil {
		owned.Close()
	}
	return err == nil || errors.Is(err, owneddir.ErrBusy)
}

// makeOutside recreates the directory on another file system, where it stays.
func makeOutside(dataDir string, r record) (*owneddir.Directory, error) {
	owned, err := take(r.Base)
	if err != nil {
		return nil, err
	}
	r.ID = owned.ID()
	if err := r.write(dataDir); err != nil {
		owned.Close()
		return nil, err
	}
	return owned, nil
}

// reachable reports whether every user can traverse the directory and all those above it.
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

func inodeOf(path string) uint64 {
	var stat unix.Stat_t
	if unix.Stat(path, &stat) != nil {
		return 0
	}
	return stat.Ino
}
