package idle

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/procfs"
)

// controlGroups is where version 2 of control groups is mounted.
const controlGroups = "/sys/fs/cgroup"

// mayGrow reports whether a heap may grow further than usual while the process is busy: at least half of the machine's memory is available,
// and no control group limits that of the process. What cannot be read allows nothing.
func mayGrow() bool {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return false
	}
	memory, err := fs.Meminfo()
	if err != nil || memory.MemTotal == nil || memory.MemAvailable == nil || *memory.MemAvailable < *memory.MemTotal/2 {
		return false
	}
	self, err := fs.Self()
	if err != nil {
		return false
	}
	groups, err := self.Cgroups()
	if err != nil {
		return false
	}
	for _, group := range groups {
		if isLimited(filepath.Join(controlGroups, group.Path)) {
			return false
		}
	}
	return true
}

// isLimited reports whether a control group, or one above it, limits memory. The topmost has no file for that.
func isLimited(group string) bool {
	for ; strings.HasPrefix(group, controlGroups); group = filepath.Dir(group) {
		if limit, err := os.ReadFile(filepath.Join(group, "memory.max")); err == nil && strings.TrimSpace(string(limit)) != "max" {
			return true
		}
	}
	return false
}
