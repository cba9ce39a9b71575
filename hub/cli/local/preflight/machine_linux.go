package preflight

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Machine is where the kernel tells what there is.
type Machine struct {
	// Proc and Cgroups are where its file systems are mounted.
	Proc, Cgroups string
}

// ThisMachine is the one on which this runs.
var ThisMachine = Machine{Proc: "/proc", Cgroups: "/sys/fs/cgroup"}

// Available is what the machine, and the control groups of this process, have left for a fleet in dir. What other fleets use already is
// not in it. Everything that the kernel does not tell is Unlimited.
func (m Machine) Available(dir string) Resources {
	groups := m.controlGroups()
	return Resources{
		Memory:    min(m.availableMemory(), groups.memory),
		MilliCPU:  min(1000*int64(runtime.NumCPU()), groups.milliCPU),
		Inotify:   m.freeInotify(),
		OpenFiles: allowedOpenFiles(),
		Tasks:     min(m.freeProcesses(), groups.tasks),
		Disk:      freeDisk(dir),
	}
}

func (m Machine) availableMemory() int64 {
	if kib, ok := readFields(filepath.Join(m.Proc, "meminfo"))["MemAvailable:"]; ok {
		return kib << 10
	}
	return Unlimited
}

// freeInotify is what is left of this user's inotify instances. What may not be read is another user's.
func (m Machine) freeInotify() int64 {
	limit, ok := readNumber(filepath.Join(m.Proc, "sys/fs/inotify/max_user_instances"))
	descriptors, err := filepath.Glob(filepath.Join(m.Proc, "[0-9]*", "fd", "*"))
	if !ok || err != nil {
		return Unlimited
	}
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && target == "anon_inode:inotify" {
			limit--
		}
	}
	return max(limit, 0)
}

// rlimitNproc is RLIMIT_NPROC, which package syscall does not name.
const rlimitNproc = 6

// freeProcesses is what is left of this user's processes and threads. Root has no limit.
func (m Machine) freeProcesses() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(rlimitNproc, &limit); err != nil || os.Getuid() == 0 || limit.Max >= Unlimited {
		return Unlimited
	}
	processes, err := filepath.Glob(filepath.Join(m.Proc, "[0-9]*"))
	if err != nil {
		return Unlimited
	}
	free := int64(limit.Max)
	for _, process := range processes {
		info, err := os.Stat(process)
		if err != nil {
			continue // It has ended.
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == os.Getuid() {
			free -= readFields(filepath.Join(process, "status"))["Threads:"]
		}
	}
	return max(free, 0)
}

// allowedOpenFiles is the hard limit: programs of a fleet raise their soft limit to it when they start, as all of Go do.
func allowedOpenFiles() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Max > Unlimited {
		return Unlimited
	}
	return int64(limit.Max)
}

// freeDisk is what the file system has free in which dir is, or is going to be.
func freeDisk(dir string) int64 {
	var found syscall.Statfs_t
	for syscall.Statfs(dir, &found) != nil {
		parent := filepath.Dir(dir)
		if parent == dir {
			return Unlimited
		}
		dir = parent
	}
	return int64(found.Bavail) * found.Bsize
}

// readNumber reads a file with one number. "max" is none.
func readNumber(path string) (int64, bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return value, err == nil
}

// readFields reads a file with a name and a number in each line.
func readFields(path string) map[string]int64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	fields := map[string]int64{}
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		words := strings.Fields(scanner.Text())
		if len(words) < 2 {
			continue
		}
		if value, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			fields[words[0]] = value
		}
	}
	return fields
}
