package localfleet_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

// killStart makes a start one whose command has ended.
func killStart(g Gomega, dir string, start localfleet.Start) {
	start.Command.StartTicks++
	content, err := json.Marshal(start)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "start.json"), content, 0o600)).To(Succeed())
}

// Claim: One process makes what a local fleet starts with, and another only if that one has ended. Broken: the process is not looked for; what another continues is finished by the first.
func TestAStartIsContinuedByOneProcess(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	g.Expect(localfleet.ContinueStart(dir)).To(BeNil(), "there is no directory")
	first, err := localfleet.TakeForStart(dir, false, localfleet.Start{Clusters: 2, Machines: 3, KubeletVersions: []string{"v1.36.2"}, Heartbeats: localfleet.HeartbeatsSlow})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = localfleet.ContinueStart(dir)
	g.Expect(err).To(MatchError(localfleet.ErrStarting))
	g.Expect(localfleet.ReadReport(dir)).To(And(HaveField("Interrupted", false), HaveField("Ready", false), HaveField("Hub.Name", "hub")), "also before there is a keeper")

	killStart(g, dir, *first)
	g.Expect(localfleet.ReadReport(dir)).To(HaveField("Interrupted", true))
	second, err := localfleet.ContinueStart(dir)
	g.Expect(err).NotTo(HaveOccurred())
	self, err := process.Self()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).To(And(HaveField("Command", self), HaveField("Clusters", 2), HaveField("Machines", 3), HaveField("KubeletVersions", HaveExactElements("v1.36.2")), HaveField("Heartbeats", localfleet.HeartbeatsSlow)))
	g.Expect(second.DirID()).To(Equal(first.DirID()))
	_, err = localfleet.ContinueStart(dir)
	g.Expect(err).To(MatchError(localfleet.ErrStarting), "not by two")

	other := *second
	other.Command.PID++
	g.Expect(other.Finish()).To(Succeed())
	g.Expect(filepath.Join(dir, "start.json")).To(BeARegularFile(), "it is another's")
	g.Expect(second.Finish()).To(Succeed())
	g.Expect(localfleet.ContinueStart(dir)).To(BeNil())
	g.Expect(second.Finish()).To(Succeed(), "again")
	_, err = localfleet.ReadReport(dir)
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

func TestDownRemovesWhatAStartHasRecorded(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	_, err := localfleet.TakeForStart(dir, false, localfleet.Start{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, ".start.json-1"), nil, 0o600)).To(Succeed())
	g.Expect(localfleet.Down(t.Context(), dir)).To(BeEmpty())
	g.Expect(dir).NotTo(BeADirectory())
}

// Bad files say what they are, and other directories are none of it.
func TestAStartThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "fleet")
	_, err := localfleet.Take(dir, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir, "start.json"), []byte("{"), 0o600)).To(Succeed())
	_, err = localfleet.ContinueStart(dir)
	g.Expect(err).To(MatchError(And(ContainSubstring("reading how the fleet in "+dir), ContainSubstring("local down"))))
	others, unchanged := precious(t)
	g.Expect(localfleet.ContinueStart(others)).To(BeNil())
	unchanged()
}
