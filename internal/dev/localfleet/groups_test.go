package localfleet_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
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
		"c1/ready.json":        `{"name":"c1","isolation":"shared","group":"` + dir + `/groups/1"}`,
	} {
		path := filepath.Join(dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	report, err := localfleet.ReadReport(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(report.Isolation).To(Equal(localfleet.IsolationShared))
	g.Expect(report.Groups).To(ConsistOf(And(HaveField("Name", "group 1"), HaveField("Process.Restarts", 2), HaveField("Process.LastExit", "signal: killed"))))
	g.Expect(report.Clusters).To(ConsistOf(HaveField("Group", "group 1"), HaveField("Group", "")))
}

func TestTheDefaultIsolationGrowsWithTheFleet(t *testing.T) {
	g := NewWithT(t)
	g.Expect(localfleet.DefaultIsolation(localfleet.SharedFrom - 1)).To(Equal(localfleet.IsolationProcess))
	g.Expect(localfleet.DefaultIsolation(localfleet.SharedFrom)).To(Equal(localfleet.IsolationShared))
}
