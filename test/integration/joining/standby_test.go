package joining

import (
	"context"
	"os"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("The Lease of a cluster", func() {
	It("should let one of two agents work, and the other one take over", fleettest.Long, func(ctx SpecContext) {
		fleet.NewDeployment(ctx, one, "kept", 2)
		before := uids(ctx)
		change(ctx, one.Name, func(spec *v1alpha1.ClusterSpec) {
			spec.Heartbeat = v1alpha1.Heartbeat{PeriodSeconds: 2, GraceSeconds: 10}
		})
		first := leaseOf(ctx, NewWithT(GinkgoT()), one.Name)

		second := newAgent(ctx, one, one.Name, "second")
		second.join(ctx, joining.AcceptNow)
		second.start()
		second.expectFrozen(ctx, frozenz{Frozen: true, Reason: v1alpha1.ReasonAnotherAgent})
		for _, path := range []string{"/readyz", "/frozenz"} {
			second.expectSays(ctx, path, ptr.Deref(first.Spec.HolderIdentity, "?"))
		}
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(second.frozen(ctx, g)).To(Equal(frozenz{Frozen: true, Reason: v1alpha1.ReasonAnotherAgent}))
		}).WithTimeout(15*time.Second).Should(Succeed(), "it stands by for longer than the grace period")
		expectWorking(ctx, one.Name)

		By("killing the agent that works")
		end(one.Agent, syscall.SIGKILL)
		killed := time.Now()
		second.expectThawed(ctx)
		report("from the kill of an agent until the other one works, with a grace period of 10 s: %.1f s", time.Since(killed).Seconds())
		Expect(leaseOf(ctx, NewWithT(GinkgoT()), one.Name).Spec.HolderIdentity).NotTo(Equal(first.Spec.HolderIdentity))
		fleet.ExpectReady(ctx, one, "kept", 2)

		By("starting it again, so that it stands by, and stopping the other")
		Expect(fleet.StartAgent(ctx, one)).To(Succeed())
		back := &agent{cluster: one.Name, log: one.Agent.LogFile()}
		back.expectFrozen(ctx, frozenz{Frozen: true, Reason: v1alpha1.ReasonAnotherAgent})
		stopped := time.Now()
		end(second.process, syscall.SIGTERM)
		back.expectThawed(ctx)
		report("from the SIGTERM of an agent until the other one works: %.1f s", time.Since(stopped).Seconds())
		expectWorking(ctx, one.Name)
		fleet.ExpectReady(ctx, one, "kept", 2)
		Expect(uids(ctx)).To(Equal(before), "no Machine was replaced, and no pod")
	}, SpecTimeout(5*fleettest.Patience))

	It("should let one of two processes of the same agent work", fleettest.Long, func(ctx SpecContext) {
		a := newAgent(ctx, two, "twice", "twice")
		a.join(ctx, joining.AcceptNow)
		a.start()
		a.expectThawed(ctx)
		again := *a
		again.log = a.log + ".2"
		again.start()
		again.expectFrozen(ctx, frozenz{Frozen: true, Reason: v1alpha1.ReasonAnotherAgent})
		again.expectSays(ctx, "/readyz", "another agent process uses directory "+a.credential)
		end(a.process, syscall.SIGTERM)
		again.expectThawed(ctx)
	}, SpecTimeout(3*fleettest.Patience))

	It("should not keep an agent waiting that was killed and starts again", fleettest.Long, func(ctx SpecContext) {
		a := newAgent(ctx, two, "killed", "killed")
		a.join(ctx, joining.AcceptNow)
		a.start()
		a.expectThawed(ctx)
		change(ctx, a.cluster, func(spec *v1alpha1.ClusterSpec) {
			spec.Heartbeat = v1alpha1.Heartbeat{PeriodSeconds: 5, GraceSeconds: 3600}
		})
		var before *int32
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			lease := leaseOf(ctx, g, a.cluster)
			before = lease.Spec.LeaseTransitions
			g.Expect(lease.Spec.LeaseDurationSeconds).To(HaveValue(BeEquivalentTo(3600)))
		}).Should(Succeed())
		end(a.process, syscall.SIGKILL)
		killed := time.Now()
		a.start()
		a.expectThawed(ctx)
		report("from the kill of an agent until its next process works, with a grace period of an hour: %.1f s", time.Since(killed).Seconds())
		Expect(leaseOf(ctx, NewWithT(GinkgoT()), a.cluster).Spec.LeaseTransitions).To(Equal(before), "it continues with its own Lease")
		log, err := os.ReadFile(a.log)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(log)).NotTo(ContainSubstring(v1alpha1.ReasonAnotherAgent))
	}, SpecTimeout(3*fleettest.Patience))
})

// uids tells the Machines of the deployment apart from any that replaced them.
func uids(ctx context.Context) map[types.UID]bool {
	GinkgoHelper()
	known := map[types.UID]bool{}
	for _, machine := range fleet.ExpectReady(ctx, one, "kept", 2) {
		known[machine.UID] = true
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			known[fleettest.PodOf(ctx, g, one, machine.Name).UID] = true
		}).Should(Succeed())
	}
	return known
}
