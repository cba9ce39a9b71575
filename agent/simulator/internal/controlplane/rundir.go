package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	controlSocket = "control.sock"
	etcdSocket    = "etcd.sock"
	podhostSocket = "podhost.sock"
	// longestSocket is the longest name of a socket in the run directory.
	longestSocket = "etcd-peer.sock"
	// maxSocketPath is the longest path that a unix socket can be bound to.
	maxSocketPath = 107
	// runDirPrefix starts the names of run directories outside the data directory.
	runDirPrefix = "simcluster-"
)

// runDirSockets are all that a run directory holds.
var runDirSockets = []string{controlSocket, etcdSocket, podhostSocket, longestSocket}

// prepareRunDir makes the directory for unix sockets, which only the owner can
// enter. It is in the data directory, or in the system's directory for
// temporary files if the path would be too long for a socket or the data
// directory's file system has no sockets. Its place is then recorded, so that
// other commands find it.
func (l Layout) prepareRunDir() (string, error) {
	l.removeRunDir()
	if err := os.MkdirAll(l.runDir(), 0o700); err != nil {
		return "", fmt.Errorf("making the directory for sockets: %w", err)
	}
	if err := os.Chmod(l.runDir(), 0o700); err != nil {
		return "", fmt.Errorf("making the directory for sockets: %w", err)
	}
	if holdsSockets(l.runDir()) {
		return l.runDir(), nil
	}
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(parent, runDirPrefix)
		if err != nil {
			continue
		}
		if holdsSockets(dir) {
			return dir, writeFile(l.runDirPointer(), []byte(dir+"\n"))
		}
		os.Remove(dir)
	}
	return "", fmt.Errorf("making the directory for sockets: neither %s nor the directories for temporary files can hold unix sockets; choose a shorter --data-dir on a local file system", l.runDir())
}

func holdsSockets(dir string) bool {
	path := filepath.Join(dir, longestSocket)
	if len(path) > maxSocketPath {
		return false
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// findRunDir returns the run directory of the cluster that is running.
func (l Layout) findRunDir() (string, error) {
	content, err := os.ReadFile(l.runDirPointer())
	if errors.Is(err, fs.ErrNotExist) {
		return l.runDir(), nil
	}
	if err != nil {
		return "", fmt.Errorf("finding the directory for sockets: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// removeRunDir removes the run directory, also one that an earlier start left
// in the directory for temporary files. Whatever is not surely one of ours is
// left alone: the recorded path may have been taken by another user.
func (l Layout) removeRunDir() {
	removeSockets(l.runDir())
	dir, err := l.findRunDir()
	if err != nil || dir == l.runDir() {
		return
	}
	if isOwnRunDir(dir) {
		removeSockets(dir)
	}
	os.Remove(l.runDirPointer())
}

// removeSockets removes the sockets in a directory, and the directory if it is
// empty then. Of a link, nothing is removed.
func removeSockets(dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, name := range runDirSockets {
		var info unix.Stat_t
		if unix.Fstatat(fd, name, &info, unix.AT_SYMLINK_NOFOLLOW) == nil && info.Mode&unix.S_IFMT == unix.S_IFSOCK {
			_ = unix.Unlinkat(fd, name, 0)
		}
	}
	_ = unix.Rmdir(dir)
}

func isOwnRunDir(dir string) bool {
	if !filepath.IsAbs(dir) || !strings.HasPrefix(filepath.Base(dir), runDirPrefix) {
		return false
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}
