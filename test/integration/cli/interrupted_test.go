package cli

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// interrupts starts a fleet, and kills the command when the fleet is so far, and its keeper too if it should.
func (p *person) interrupts(withKeeper bool, isSoFar func(localfleet.State, string) bool) {
	p.t.Helper()
	up := p.starts("local", "up", "--dir", p.dir, "--clusters", "2", "--machines", "1", "--kubelet-version", "v1.36.2", "--kubelet-version", "v1.35.4")
	var keeper int
	p.Eventually(func() bool {
		p.Expect(up.ended).NotTo(BeClosed(), up.output.String)
		state, err := localfleet.ReadState(p.dir)
		if err != nil || state.Keeper == nil || !isSoFar(state, up.output.String()) {
			return false
		}
		keeper = state.Keeper.PID
		return true
	}, patience, 20*time.Millisecond).Should(BeTrue())
	p.Expect(up.Process.Kill()).To(Succeed())
	<-up.ended
	if withKeeper {
		p.Expect(syscall.Kill(keeper, syscall.SIGKILL)).To(Succeed())
	}
}

// saysInterrupted holds that status says what is there, and what to do.
func (p *person) saysInterrupted(when string) {
	p.t.Helper()
	code, output := p.hollow("local", "status", "--dir", p.dir)
	p.Expect(code).To(Equal(1), output)
	p.Expect(output).To(ContainSubstring("keeper"))
	p.Expect(output).To(MatchRegexp("%s.*: (continue with|.*start the fleet again with its data with) kubectl hollow local up --dir %s, or end .*kubectl hollow local down --dir %s", when, p.dir, p.dir))
}

// Claim: A killed `local up` is continued by the next, or removed by `local down`; `local status` says so. Broken: the directory is refused; the set is not made, and "The fleet is up".
func TestAStartThatIsKilled(t *testing.T) {
	testenv.Long(t)
	p := newPerson(t)
	isRecorded := func(localfleet.State, string) bool { return true }
	p.interrupts(true, isRecorded)
	p.saysInterrupted("ended before it was up, and keeper is not running")
	p.succeeds("local", "down", "--dir", p.dir)
	p.leavesNothing()

	p.interrupts(false, isRecorded)
	p.saysInterrupted("ended before the fleet was up")
	p.succeeds("local", "down", "--dir", p.dir)
	p.leavesNothing()

	hubRuns := func(s localfleet.State, _ string) bool { return len(s.Processes) > 0 }
	p.interrupts(true, hubRuns)
	hasClusters := func(s localfleet.State, _ string) bool { return s.Ready && len(s.Hosted) > 1 }
	p.interrupts(false, hasClusters)
	p.saysInterrupted("ended before all of its clusters and machines were there")
	p.interrupts(true, func(_ localfleet.State, output string) bool { return strings.Contains(output, "local-0: ready") })
	p.saysInterrupted("is not running")

	p.Expect(p.succeeds("local", "up", "--dir", p.dir)).To(And(ContainSubstring("local-0: 1 machine ready"), ContainSubstring("local-1: 1 machine ready"), ContainSubstring("The fleet is up")))
	p.kubeconfig = p.report().Hub.Kubeconfig
	p.Eventually(func() string { return p.succeeds("cluster", "list") }, patience, time.Second).Should(And(MatchRegexp(`local-0 .* 1/1 `), MatchRegexp(`local-1 .* 1/1 `)))
	p.Expect(p.succeeds("rollout", "history", "machinedeployment", "workers", "-n", "local-1")).To(ContainSubstring("v1.35.4"))
	p.Expect(p.stages()).To(Equal(map[string]string{"local-0": localfleet.StageCanary, "local-1": localfleet.StageProduction}))
	code, output := p.hollow("local", "up", "--dir", p.dir)
	p.Expect(code).To(Equal(4), output)
	p.succeeds("local", "down", "--dir", p.dir)
	p.leavesNothing()
}

// stages are the labels by which a MachineFleet starts with one of the clusters.
func (p *person) stages() map[string]string {
	p.t.Helper()
	list, stages := &v1alpha1.ClusterList{}, map[string]string{}
	p.Expect(p.hub().List(context.Background(), list)).To(Succeed())
	for i := range list.Items {
		if stage, labelled := list.Items[i].Labels[localfleet.StageLabel]; labelled {
			stages[list.Items[i].Name] = stage
		}
	}
	return stages
}
