package preflight

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// limits are what control groups leave.
type limits struct{ memory, milliCPU, tasks int64 }

// controlGroups are the tightest limits of the control groups that this process is in and of those above them, of both versions.
func (m Machine) controlGroups() limits {
	left := limits{Unlimited, Unlimited, Unlimited}
	content, err := os.ReadFile(filepath.Join(m.Proc, "self/cgroup"))
	if err != nil {
		return left
	}
	for line := range strings.Lines(string(content)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if parts[1] == "" {
			left = left.tightest(m.above("", parts[2]), readGroup)
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			left = left.tightest(m.above(controller, parts[2]), readEarlierGroup)
		}
	}
	return left
}

// above returns the directory of a group, and those above it. In a container they may not be there: the group is mounted as the root then.
func (m Machine) above(controller, group string) []string {
	root := filepath.Join(m.Cgroups, controller)
	directories := []string{root}
	for group = filepath.Clean("/" + group); group != "/"; group = filepath.Dir(group) {
		directories = append(directories, filepath.Join(root, group))
	}
	return directories
}

func (l limits) tightest(directories []string, read func(directory string) limits) limits {
	for _, directory := range directories {
		one := read(directory)
		l = limits{min(l.memory, one.memory), min(l.milliCPU, one.milliCPU), min(l.tasks, one.tasks)}
	}
	return l
}

// readGroup reads a group of cgroup v2.
func readGroup(directory string) limits {
	quota, period := int64(0), int64(0)
	if content, err := os.ReadFile(filepath.Join(directory, "cpu.max")); err == nil {
		if words := strings.Fields(string(content)); len(words) == 2 {
			quota, _ = strconv.ParseInt(words[0], 10, 64) // "max" is no quota.
			period, _ = strconv.ParseInt(words[1], 10, 64)
		}
	}
	return limits{
		memory:   freeMemory(directory, "memory.max", "memory.current", "inactive_file"),
		milliCPU: milliCPU(quota, period),
		tasks:    freeTasks(directory),
	}
}

// readEarlierGroup reads a group of cgroup v1.
func readEarlierGroup(directory string) limits {
	quota, _ := readNumber(filepath.Join(directory, "cpu.cfs_quota_us"))
	period, _ := readNumber(filepath.Join(directory, "cpu.cfs_period_us"))
	return limits{
		memory:   freeMemory(directory, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
		milliCPU: milliCPU(quota, period),
		tasks:    freeTasks(directory),
	}
}

// freeMemory is the limit without what is in use. The cache of files that nobody has read lately is given up when memory is needed.
func freeMemory(directory, limitFile, usageFile, cache string) int64 {
	limit, limited := readNumber(filepath.Join(directory, limitFile))
	used, known := readNumber(filepath.Join(directory, usageFile))
	if !limited || !known {
		return Unlimited
	}
	return max(0, limit-used+readFields(filepath.Join(directory, "memory.stat"))[cache])
}

func milliCPU(quota, period int64) int64 {
	if quota <= 0 || period <= 0 {
		return Unlimited
	}
	return quota * 1000 / period
}

func freeTasks(directory string) int64 {
	limit, limited := readNumber(filepath.Join(directory, "pids.max"))
	used, known := readNumber(filepath.Join(directory, "pids.current"))
	if !limited || !known {
		return Unlimited
	}
	return max(0, limit-used)
}
