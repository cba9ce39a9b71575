package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
)

// machineOf writes the files of a kernel.
func machineOf(t *testing.T, files map[string]string) Machine {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o644)).To(Succeed())
	}
	return Machine{Proc: filepath.Join(root, "proc"), Cgroups: filepath.Join(root, "cgroup")}
}

// Edge case: A machine with memory and a container that may not use it.
func TestControlGroupsLimitWhatIsAvailable(t *testing.T) {
	const meminfo = "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable:  90 kB\n"
	for name, test := range map[string]struct {
		files          map[string]string
		memory, milli  int64
		tasks          int64
		withoutMeminfo bool
	}{
		"no limits": {map[string]string{"proc/self/cgroup": "0::/a\n", "cgroup/a/memory.max": "max\n", "cgroup/a/memory.current": "7\n", "cgroup/a/cpu.max": "max 100000\n", "cgroup/a/pids.max": "max\n"}, 90 << 10, Unlimited, Unlimited, false},
		"limits": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "cgroup/a/memory.max": "50000\n", "cgroup/a/memory.current": "20000\n", "cgroup/a/memory.stat": "anon 5\ninactive_file 15000\n",
			"cgroup/a/cpu.max": "150000 100000\n", "cgroup/a/pids.max": "500\n", "cgroup/a/pids.current": "100\n",
		}, 45000, 1500, 400, false},
		"of the group above":      {map[string]string{"proc/self/cgroup": "0::/a/b\n", "cgroup/a/memory.max": "500\n", "cgroup/a/memory.current": "600\n", "cgroup/a/b/memory.max": "max\n"}, 0, Unlimited, Unlimited, false},
		"mounted as the root":     {map[string]string{"proc/self/cgroup": "0::/not/there\n", "cgroup/memory.max": "500\n", "cgroup/memory.current": "100\n"}, 400, Unlimited, Unlimited, false},
		"cgroup v1":               {map[string]string{"proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/\n0::/\n", "cgroup/memory/x/memory.limit_in_bytes": "1000\n", "cgroup/memory/x/memory.usage_in_bytes": "900\n", "cgroup/memory/x/memory.stat": "total_inactive_file 50\n", "cgroup/cpu/cpu.cfs_quota_us": "50000\n", "cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 150, 500, Unlimited, false},
		"cgroup v1, no quota":     {map[string]string{"proc/self/cgroup": "3:cpu:/\n", "cgroup/cpu/cpu.cfs_quota_us": "-1\n", "cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 90 << 10, Unlimited, Unlimited, false},
		"garbage":                 {map[string]string{"proc/self/cgroup": "what\n\n::\n", "cgroup/memory.max": "many\n", "cgroup/cpu.max": "1"}, 90 << 10, Unlimited, Unlimited, false},
		"nothing told, no limits": {nil, Unlimited, Unlimited, Unlimited, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if !test.withoutMeminfo {
				test.files["proc/meminfo"] = meminfo
			}
			m := machineOf(t, test.files)
			groups := m.controlGroups()
			g.Expect([]int64{m.Available(t.TempDir()).Memory, groups.milliCPU, groups.tasks}).To(Equal([]int64{test.memory, test.milli, test.tasks}))
			g.Expect(m.Available(t.TempDir()).MilliCPU).To(Equal(min(test.milli, 1000*int64(runtime.NumCPU()))))
		})
	}
}

func TestInotifyInstancesInUseAreCounted(t *testing.T) {
	g := NewWithT(t)
	g.Expect(machineOf(t, nil).freeInotify()).To(Equal(int64(Unlimited)), "the kernel does not tell")
	m := machineOf(t, map[string]string{"proc/sys/fs/inotify/max_user_instances": "128\n"})
	g.Expect(m.freeInotify()).To(Equal(int64(128)))
	open := filepath.Join(m.Proc, "4711", "fd")
	g.Expect(os.MkdirAll(open, 0o755)).To(Succeed())
	for i := range 100 {
		g.Expect(os.Symlink("anon_inode:inotify", filepath.Join(open, fmt.Sprint(i)))).To(Succeed())
		g.Expect(os.Symlink("/dev/null", filepath.Join(open, fmt.Sprint(1000+i)))).To(Succeed())
	}
	g.Expect(m.freeInotify()).To(Equal(int64(28)))
}

func TestThisMachineTells(t *testing.T) {
	g := NewWithT(t)
	has := ThisMachine.Available(filepath.Join(t.TempDir(), "not", "there", "yet"))
	g.Expect(has.Memory).To(And(BeNumerically(">", 1<<20), BeNumerically("<", 1<<50)))
	g.Expect(has.OpenFiles).To(BeNumerically(">", 0))
	g.Expect(has.MilliCPU).To(BeNumerically("<=", 1000*runtime.NumCPU()))
	g.Expect(has.Disk).To(And(BeNumerically(">", 0), BeNumerically("<", Unlimited)))
}
