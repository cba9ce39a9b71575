package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/atomicfile"
)

const (
	// recordName is the file in the data directory that names a base directory
	// outside it, ownerName the file there with the way back.
	recordName = "pods-directory"
	ownerName  = ".data-directory"
)

// record is the content of the first.
type record struct {
	Base string `json:"base"`
	// ID is the data directory's own. Another file system that is mounted in
	// its place can have the same inodes, but not the ID.
	ID string `json:"id"`
}

// baseOwner is the content of the second. A copy of the data directory has its
// ID, but not its inode.
type baseOwner struct {
	Path  string `json:"path"`
	ID    string `json:"id"`
	Inode uint64 `json:"inode"`
}

// readRecord returns what the data directory records. It is empty if there
// never was a base directory outside, or if another program wrote the file.
func readRecord(dataDir string) (record, error) {
	content, err := os.ReadFile(filepath.Join(dataDir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("reading where the pods' directory is: %w", err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return record{}, nil //nolint:nilerr // A base directory that it named is left alone.
	}
	return r, nil
}

func writeRecord(dataDir string, r record) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing where the pods' directory is: %w", err)
	}
	return atomicfile.Write(filepath.Join(dataDir, recordName), append(content, '\n'), 0o600)
}

func writeOwner(base, dataDir, id string) error {
	inode, err := inodeOf(dataDir)
	if err != nil {
		return fmt.Errorf("reading the data directory: %w", err)
	}
	content, err := json.Marshal(baseOwner{Path: dataDir, ID: id, Inode: inode})
	if err != nil {
		return fmt.Errorf("writing whose the pods' directory is: %w", err)
	}
	return atomicfile.Write(filepath.Join(base, ownerName), append(content, '\n'), 0o600)
}

// readOwner reads whose a base directory outside is. It finds none if the path
// is not that of a directory that this user made, or if no podhost of this
// version made it. In a directory for temporary files another user may have
// taken the name.
func readOwner(base string) (o baseOwner, found bool, err error) {
	if !hasOurName(base) {
		return o, false, nil
	}
	info, err := os.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err != nil {
		return o, false, fmt.Errorf("reading the pods' directory: %w", err)
	}
	if status, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(status.Uid) != os.Geteuid() {
		return o, false, nil
	}
	content, err := os.ReadFile(filepath.Join(base, ownerName))
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err != nil {
		return o, false, fmt.Errorf("reading whose the pods' directory is: %w", err)
	}
	if err := json.Unmarshal(content, &o); err != nil || o.ID == "" {
		return o, false, nil //nolint:nilerr // An earlier version wrote it.
	}
	return o, true, nil
}

// belongs reports whether the base directory was made for the data directory
// that is at this path now.
func belongs(base, dataDir string) (bool, error) {
	o, found, err := readOwner(base)
	if err != nil || !found {
		return false, err
	}
	r, err := readRecord(dataDir)
	if err != nil || r.ID != o.ID {
		return false, err
	}
	inode, err := inodeOf(dataDir)
	return err == nil && inode == o.Inode, err
}

// removeOrphans removes the base directories of data directories that have
// another one by now. A data directory that is not at its path may have been
// renamed or unmounted, so the base directory of one that is missing stays.
func removeOrphans(parent string) {
	bases, err := filepath.Glob(filepath.Join(parent, outsidePrefix+"*"))
	if err != nil {
		return
	}
	for _, base := range bases {
		if !isOrphan(base) {
			continue
		}
		// What cannot be removed now is tried again by the next podhost.
		left, err := removeBase(base)
		if err != nil || len(left) > 0 {
			klog.Background().Info("Leaving files of a pods' directory that is not used any more", "paths", left, "reason", err)
		}
	}
}

// isOrphan reports whether the data directory of a base directory is there and
// records another one. The last element of the paths is compared, because a
// directory for temporary files can have several names.
func isOrphan(base string) bool {
	o, found, err := readOwner(base)
	if err != nil || !found {
		return false
	}
	if ours, err := belongs(base, o.Path); err != nil || !ours {
		klog.Background().Info("Leaving a pods' directory in place, because its data directory is not where it was: remove it yourself if that is gone", "path", base, "dataDirectory", o.Path)
		return false
	}
	r, err := readRecord(o.Path)
	return err == nil && hasOurName(r.Base) && filepath.Base(r.Base) != filepath.Base(base)
}

func inodeOf(path string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return stat.Ino, nil
}
