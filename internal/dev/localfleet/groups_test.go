package localfleet_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// A group that is killed leaves its files, a mark on its directory among them.
// Edge case: `local down` after a group of control planes was killed.
func TestDownRemovesTheFilesOfAKilledGroup(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	mark(g, dir, localfleet.State{Clusters: []string{"hub", "c1"}, Isolation: localfleet.IsolationShared})
	group := filepath.Join(dir, "groups", "1")
	g.Expect(os.MkdirAll(group, 0o700)).To(Succeed())
	for _, name := range []string{".hollowfleet-directory", "planes.log", "planes.log.1", "status.json", "precious"} {
		g.Expect(os.WriteFile(filepath.Join(group, name), nil, 0o600)).To(Succeed())
	}
	left, err := localfleet.Down(t.Context(), dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(ConsistOf(filepath.Join(group, "precious")))
}

func TestTheReportTellsOfGroups(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	mark(g, dir, localfleet.State{Clusters: []string{"hub", "c1", "c2"}, Isolation: localfleet.IsolationShared})
	for name, content := range map[string]string{
		"groups/1/status.json": `{"clusters":["c1"],"process":{"state":"running","pid":7,"restarts":2,"lastExit":"signal: killed"},"log":"l"}`,
		"c1/ready.json":        `{"name":"c1","isolation":"shared","group":"` + dir + `/groups/1","components":{"etcd":{"problem":"etcd out of space"},"podhost":{}}}`,
	} {
		path := filepath.Join(dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	report, err := localfleet.ReadReport(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(report.Isolation).To(Equal(localfleet.IsolationShared))
	g.Expect(report.Groups).To(ConsistOf(And(HaveField("Name", "group 1"), HaveField("Process.Restarts", 2), HaveField("Process.LastExit", "signal: killed"))))
	g.Expect(report.Clusters).To(ConsistOf(
		And(HaveField("Group", "group 1"), HaveField("Problems", ConsistOf("etcd: etcd out of space"))), And(HaveField("Group", ""), HaveField("Problems", BeEmpty()))))
}

// Claim: `local status` names a process that does not answer. Broken: new.
func TestTheReportTellsOfSilence(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	sleep := exec.Command("/bin/sleep", "60")
	g.Expect(sleep.Start()).To(Succeed())
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	state := localfleet.State{Clusters: []string{"hub", "c1"}}
	for _, name := range []string{"hub", "group 1"} {
		identity, err := process.Of(name, sleep.Process.Pid)
		g.Expect(err).NotTo(HaveOccurred())
		state.Processes = append(state.Processes, identity)
	}
	mark(g, dir, state)
	const shared = 1 << 29 // No process has this ID.
	silent := func() map[string]int {
		report, err := localfleet.ReadReport(dir)
		g.Expect(err).NotTo(HaveOccurred())
		found := map[string]int{}
		for _, running := range report.Processes {
			if running.SilentPID != 0 {
				found[running.Name] = running.SilentPID
			}
		}
		return found
	}
	g.Expect(silent()).To(BeEmpty())
	g.Expect(os.MkdirAll(filepath.Join(dir, "groups", "1"), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, "groups", "1", "status.json"), fmt.Appendf(nil, `{"unanswered":1,"process":{"pid":%d}}`, shared), 0o600)).To(Succeed())
	g.Expect(silent()).To(Equal(map[string]int{"group 1": shared}))
	g.Expect(sleep.Process.Signal(syscall.SIGSTOP)).To(Succeed())
	g.Eventually(silent).Should(Equal(map[string]int{"hub": sleep.Process.Pid, "group 1": sleep.Process.Pid}), "the suspended supervisor comes first")
	g.Expect(sleep.Process.Kill()).To(Succeed())
	g.Eventually(silent).Should(BeEmpty())
}

func TestTheDefaultIsolationGrowsWithTheFleet(t *testing.T) {
	g := NewWithT(t)
	g.Expect(localfleet.DefaultIsolation(localfleet.SharedFrom - 1)).To(Equal(localfleet.IsolationProcess))
	g.Expect(localfleet.DefaultIsolation(localfleet.SharedFrom)).To(Equal(localfleet.IsolationShared))
}

// Claim: `local status` counts the processes of hollow nodes. Broken: new.
func TestTheReportCountsProcessesOfNodes(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	mark(g, dir, localfleet.State{Clusters: []string{"hub", "c1", "c2"}, NodesPerPack: 25})
	node := filepath.Join(t.TempDir(), "hollow-node")
	shell, err := exec.LookPath("sleep")
	g.Expect(err).NotTo(HaveOccurred())
	program, err := os.ReadFile(shell)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(node, program, 0o755)).To(Succeed())
	podhost := exec.Command("/bin/sh", "-c", node+" 60 & (exec "+node+" 60) & sleep 60 & wait")
	podhost.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.Expect(podhost.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = syscall.Kill(-podhost.Process.Pid, syscall.SIGKILL)
		_ = podhost.Wait()
	})
	for name, pid := range map[string]int{"c1": podhost.Process.Pid, "c2": 0} {
		g.Expect(os.MkdirAll(filepath.Join(dir, name), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(dir, name, "ready.json"), fmt.Appendf(nil, `{"name":%q,"components":{"podhost":{"pid":%d}}}`, name, pid), 0o600)).To(Succeed())
	}
	g.Eventually(func() ([]localfleet.ControlPlane, error) {
		report, err := localfleet.ReadReport(dir)
		g.Expect(report.NodesPerPack).To(Equal(25))
		return report.Clusters, err
	}).Should(ConsistOf(And(HaveField("Name", "c1"), HaveField("NodeProcesses", 2)), And(HaveField("Name", "c2"), HaveField("NodeProcesses", 0))))
}
