package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Owner is the user to whom a pod's own files belong: those in emptyDir volumes
// and its temporary ones. The files of other volumes, and all directories that
// lead to files, stay with the user of this process, so that a container cannot
// change them or put a link where the podhost is about to write.
type Owner struct {
	// Shared is set if the pod's containers run as different users. Its own
	// files then stay with the user of this process, and every user can pass.
	Shared bool
	// Change is set if the files must be given to UID and GID, because the
	// pod's containers run as a user other than this process's.
	Change   bool
	UID, GID int
}

// makePassage makes a directory that leads to the owner's files.
func (o Owner) makePassage(path string) error {
	switch {
	case o.Shared:
		return makeDirectory(path, 0o711, -1, -1)
	case o.Change:
		return makeDirectory(path, 0o750, -1, o.GID)
	}
	return makeDirectory(path, 0o700, -1, -1)
}

// makeWritable makes a directory for the owner to write to.
func (o Owner) makeWritable(path string) error {
	if o.Change {
		return makeDirectory(path, o.writableMode(), o.UID, o.GID)
	}
	return makeDirectory(path, o.writableMode(), -1, -1)
}

// makeIn makes every directory on a path below the root for the owner to write to.
func (o Owner) makeIn(root *os.Root, path string) error {
	if err := root.MkdirAll(path, o.writableMode().Perm()); err != nil {
		return err
	}
	for path = filepath.Clean(path); o.Change && path != "."; path = filepath.Dir(path) {
		if err := root.Lchown(path, o.UID, o.GID); err != nil {
			return err
		}
	}
	return nil
}

// protect makes the files in a directory read-only, as a kubelet mounts them.
// They stay with the user of this process, and another user reads through its
// group what their owner may read. The user of this process can still write to
// the directories: that is where the content is replaced, and without it no process
// but root could remove the data directory of a podhost that was killed.
func (o Owner) protect(directory string) error {
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() &^ 0o222
		if o.Change {
			mode |= (mode & 0o500) >> 3
			if err := os.Lchown(path, -1, o.GID); err != nil {
				return err
			}
		}
		if entry.IsDir() {
			mode |= 0o200
		}
		return os.Chmod(path, mode)
	})
}

func (o Owner) writableMode() os.FileMode {
	if o.Shared {
		return 0o777 | os.ModeSticky
	}
	return 0o700
}

// makeDirectory makes a directory unless it is there already. IDs of -1 leave
// the user or group as it is.
func makeDirectory(path string, mode os.FileMode, uid, gid int) error {
	err := os.Mkdir(path, mode.Perm())
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	// The mode given to Mkdir is subject to the file creation mask. The owner
	// changes first, because a change of owner clears mode bits.
	if err := errors.Join(os.Lchown(path, uid, gid), os.Chmod(path, mode)); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	return nil
}
