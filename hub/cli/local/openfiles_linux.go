package local

import (
	"syscall"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// fewestOpenFiles is how many files a process of a fleet must be able to have open: etcd alone wants 150.
const fewestOpenFiles = 256

// checkOpenFiles refuses a limit of open files with which no control plane starts.
func checkOpenFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil //nolint:nilerr // A limit that is not known refuses nothing.
	}
	return refuseOpenFiles(limit.Max)
}

func refuseOpenFiles(limit uint64) error {
	if limit >= fewestOpenFiles {
		return nil
	}
	return cmdutil.Refusal("a process may open %d files here (ulimit -n), but etcd, API servers and nodes need at least %d: raise the limit with ulimit -n 1024, "+
		"or in /etc/security/limits.conf, and start a new shell", limit, fewestOpenFiles)
}
