package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// inotify instances that a control plane keeps open, counted on a fleet at rest: 3 of the API server, 6 of the controller manager, and in
// a workload cluster 2 of the scheduler. Hollow nodes, agents and the hub keep none.
const (
	inotifyOfHub     = 9
	inotifyOfCluster = 11
)

const inotifyLimitFile = "sys/fs/inotify/max_user_instances"

// inotifyShortage returns what is missing of fs.inotify.max_user_instances for a hub and clusters workload clusters, with the remedy. It is
// empty if there is enough, or if proc, the directory of the kernel's files, does not tell.
func inotifyShortage(proc string, clusters int) string {
	content, err := os.ReadFile(filepath.Join(proc, inotifyLimitFile))
	if err != nil {
		return ""
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return ""
	}
	used, needed := openInotify(proc), inotifyOfHub+clusters*inotifyOfCluster
	if used+needed <= limit {
		return ""
	}
	return fmt.Sprintf("Warning: fs.inotify.max_user_instances is %d, of which %d are in use, and this fleet needs %d more: otherwise certificates are reread "+
		"late, and other programs may fail with \"too many open files\". Raise it with: sysctl -w fs.inotify.max_user_instances=%d", limit, used, needed, max(512, 2*(used+needed)))
}

// openInotify counts the inotify instances of this user's processes. What may not be read is another user's.
func openInotify(proc string) (count int) {
	descriptors, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil {
		return 0
	}
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && target == "anon_inode:inotify" {
			count++
		}
	}
	return count
}
