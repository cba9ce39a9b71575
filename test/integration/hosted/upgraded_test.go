package hosted

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// earlierVariable has the directory with the programs of an earlier commit. "make test-upgrade" sets it.
const earlierVariable = "HOLLOWFLEET_EARLIER_BIN"

// usePrograms lets names in the fleet's directory of programs be those of bin.
func (f *localFleet) usePrograms(bin string, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		link := filepath.Join(f.bin, name)
		Expect(os.Symlink(filepath.Join(bin, name), link+".new")).To(Succeed())
		Expect(os.Rename(link+".new", link)).To(Succeed())
	}
}

// controlPlanes are the processes of all control planes, with their programs.
func (f *localFleet) controlPlanes() (all []string) {
	GinkgoHelper()
	report, err := localfleet.ReadReport(f.dir)
	Expect(err).NotTo(HaveOccurred())
	for _, plane := range report.Planes() {
		ready, err := process.ReadReady(plane.Dir)
		Expect(err).NotTo(HaveOccurred())
		for name, component := range ready.Components {
			program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", component.PID))
			Expect(err).NotTo(HaveOccurred())
			all = append(all, fmt.Sprintf("%s %s %d %s", plane.Name, name, component.PID, program))
		}
	}
	return all
}

// expectPrograms waits until hub and agents run, as programs of bin.
func (f *localFleet) expectPrograms(ctx context.Context, bin string, names []string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		for _, name := range names {
			program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", f.pidOf(name)))
			g.Expect(err).NotTo(HaveOccurred(), name)
			g.Expect(filepath.Dir(program)).To(Equal(bin), name)
		}
	}).Should(Succeed())
}

var _ = Describe("A local fleet of an earlier commit", fleettest.Long, func() {
	// Claim: Programs take over a fleet of an earlier commit: no control plane restarts for hub and agents, no Machine goes. Broken: another name of a field in fleet.json.
	It("should be taken over with its simulated clusters", func(ctx SpecContext) {
		earlier, err := filepath.EvalSymlinks(os.Getenv(earlierVariable))
		if os.Getenv(earlierVariable) == "" {
			Skip("make test-upgrade runs it")
		}
		Expect(err).NotTo(HaveOccurred())
		present, err := filepath.EvalSymlinks(fleet.bin)
		Expect(err).NotTo(HaveOccurred())
		linked := &localFleet{bin: GinkgoT().TempDir()}
		linked.usePrograms(earlier, "hub", "agent", "simcluster", "hollow-node", "kubectl-hollow")
		f := startFleet(ctx, linked.bin)
		const name, replicas, machines = "sim", 2, 2
		o := f.observe(ctx, name)
		names, agents := namesOf(name, 0, 1), []string{hubProcess, hostProcess}
		set := f.createSet(ctx, name, replicas, machines)
		o.expectSettled(ctx, machines, names, older)
		for _, one := range names {
			agents = append(agents, "agent "+one)
		}
		f.expectPrograms(ctx, earlier, agents)
		before, planes := o.machineUIDs(ctx, names), f.controlPlanes()

		f.usePrograms(present, "hub", "agent", "kubectl-hollow")
		f.expectProgram(ctx, "hub", "install", "--kubeconfig", filepath.Join(f.dir, "hub", "kubeconfigs", "admin.conf"))
		for _, one := range agents {
			Expect(syscall.Kill(f.pidOf(one), syscall.SIGKILL)).To(Succeed())
		}
		f.expectPrograms(ctx, present, agents)
		o.expectSettled(ctx, machines, names, older)
		Expect(f.controlPlanes()).To(ConsistOf(planes), "no control plane restarts")
		Expect(o.machineUIDs(ctx, names)).To(ConsistOf(before))

		f.usePrograms(present, "simcluster", "hollow-node")
		f.kill(ctx, localfleet.KeeperName)
		f.expectPrograms(ctx, present, agents)
		o.expectSettled(ctx, machines, names, older)
		Expect(o.machineUIDs(ctx, names)).To(ConsistOf(before))
		Expect(strings.Join(testenv.ProcessesUnder(f.temp), "\n")).NotTo(ContainSubstring(earlier))

		f.patch(ctx, set, `{"spec":{"template":{"spec":{"versions":{"controlPlane":"`+newer+`"}}}}}`)
		f.expectReady(ctx, set, replicas)
		o.expectSettled(ctx, machines, names, newer)
		Expect(o.machineUIDs(ctx, names)).To(ConsistOf(before))
		f.scale(ctx, set, 1)
		f.expectReady(ctx, set, 1)
		o.expectNothing(ctx, names[1:])
		o.expectWhole(ctx, names[:1], machines, newer)
		o.expectMade(ctx, names, machines)
	}, SpecTimeout(2*fleettest.Patience))
})
