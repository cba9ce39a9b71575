package cli

import (
	"bytes"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// running is a command that has been started.
type running struct {
	*exec.Cmd
	output bytes.Buffer
	ended  chan struct{}
}

// starts starts a command, and ends it with the test.
func (p *person) starts(args ...string) *running {
	p.t.Helper()
	r := &running{Cmd: exec.Command(p.program("kubectl-hollow"), args...), ended: make(chan struct{})}
	r.Stdout, r.Stderr = &r.output, &r.output
	p.Expect(r.Start()).To(Succeed())
	go func() {
		_ = r.Wait() // Its exit code says it.
		close(r.ended)
	}()
	p.t.Cleanup(func() {
		_ = r.Process.Kill() // It may have ended.
		<-r.ended
	})
	return r
}

// awaitState waits until the state file of the fleet says so.
func (p *person) awaitState(is func(localfleet.State) bool) {
	p.t.Helper()
	p.Eventually(func() bool {
		state, err := localfleet.ReadState(p.dir)
		return err == nil && is(state)
	}, patience, 50*time.Millisecond).Should(BeTrue())
}

// Claim: A local fleet of an earlier version, with clusters of its own and no host, is shown, started again and ended. Broken: the keeper has no such clusters.
func TestAFleetOfAnEarlierVersion(t *testing.T) {
	testenv.Long(t)
	p := newPerson(t)
	bin, err := testenv.BinDir()
	p.Expect(err).NotTo(HaveOccurred())
	id, err := localfleet.Take(p.dir, false)
	p.Expect(err).NotTo(HaveOccurred())
	p.starts("local", "keep", "--dir", p.dir, "--dir-id", id, "--cluster", "c1", "--isolation", "process", "--nodes-per-pack", "25", "--bin-dir", bin)
	p.awaitState(func(s localfleet.State) bool { return s.Ready })
	p.Expect(p.report()).To(And(HaveField("Host", ""), HaveField("Clusters", ConsistOf(HaveField("Name", "c1")))))
	p.killKeeper()
	p.Expect(p.succeeds("local", "up", "--dir", p.dir)).To(And(ContainSubstring("c1: agent started"), ContainSubstring("The fleet is up"), Not(ContainSubstring("simulatedclusterset"))))
	p.kubeconfig = p.report().Hub.Kubeconfig
	p.Eventually(func() string { return p.succeeds("cluster", "list") }, patience, time.Second).Should(MatchRegexp(`c1 +Accepted +True `))
	p.succeeds("local", "down", "--dir", p.dir)
	p.leavesNothing()
}

// Edge case: `local down` left `local up` waiting for a hub that had ended.
func TestAFleetThatIsEndedWhileItStarts(t *testing.T) {
	testenv.Long(t)
	p := newPerson(t)
	up := p.starts("local", "up", "--dir", p.dir, "--clusters", "1", "--machines", "1")
	p.awaitState(func(s localfleet.State) bool { return s.Ready })
	p.succeeds("local", "down", "--dir", p.dir)
	p.Eventually(up.ended, grace).Should(BeClosed())
	p.Expect(up.ProcessState.ExitCode()).To(Equal(1), up.output.String())
	p.Expect(up.output.String()).To(ContainSubstring("was ended while it started"))
	p.leavesNothing()
}

// Claim: A set that is scaled while its fleet starts is taken as it is then. Broken: the cluster that is gone is waited for, or ends the fleet.
func TestAFleetThatIsScaledWhileItStarts(t *testing.T) {
	testenv.Long(t)
	p := newPerson(t)
	up := p.starts("local", "up", "--dir", p.dir, "--clusters", "2", "--machines", "1")
	p.awaitState(func(s localfleet.State) bool { return s.Ready && len(s.Hosted) > 0 })
	code, output := p.hollow("local", "up", "--dir", p.dir, "--clusters", "1")
	p.Expect(code).To(Equal(4), output)
	report, err := localfleet.ReadReport(p.dir)
	p.Expect(err).NotTo(HaveOccurred())
	p.kubeconfig = report.Hub.Kubeconfig
	p.scale(p.hub(), &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: localfleet.SetName}}, 1)
	p.Eventually(up.ended, patience).Should(BeClosed())
	p.Expect(up.ProcessState.ExitCode()).To(Equal(0), up.output.String())
	p.Expect(up.output.String()).To(And(ContainSubstring("local-0: 1 machine ready"), Not(ContainSubstring("local-1: 1 machine ready"))))
	p.Eventually(func() []localfleet.ControlPlane { return p.report().Clusters }, patience, time.Second).Should(ConsistOf(HaveField("Name", "local-0")))
	p.succeeds("local", "down", "--dir", p.dir)
	p.leavesNothing()
}
