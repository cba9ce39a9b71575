package joining

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A cluster that works and is denied", func() {
	It("should lose every watch that its agent has on the hub, stay as it is, and work on when it is accepted again", fleettest.Long, func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, one, "denied", 1)
		fleet.ExpectReady(ctx, one, "denied", 1)
		a := &agent{cluster: one.Name, log: one.Agent.LogFile()}
		a.expectThawed(ctx)
		process := one.Agent
		all := watches(ctx, NewWithT(GinkgoT()))
		Expect(all).To(BeNumerically(">=", 4), "agents of two clusters watch their Machines and MachineClasses")

		setAcceptance(ctx, one.Name, v1alpha1.AcceptanceDenied)
		denied := time.Now()
		a.expectFrozen(ctx, frozenz{Frozen: true, Reason: v1alpha1.ReasonDenied})
		report("from the denial of a cluster until its agent is frozen for it: %.1f s", time.Since(denied).Seconds())
		expectWatches(ctx, all-2)
		report("from the denial of a cluster until no watch of its agent is open: %.1f s", time.Since(denied).Seconds())

		By("scaling up, and waiting for longer than the agent takes to freeze for want of an answer")
		fleet.Scale(ctx, deployment, 2)
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(a.frozen(ctx, g)).To(Equal(frozenz{Frozen: true, Reason: v1alpha1.ReasonDenied}))
			g.Expect(watches(ctx, g)).To(Equal(all - 2))
			g.Expect(fleet.MachinesOf(ctx, g, one, "denied")).To(HaveLen(1))
		}).WithTimeout(35 * time.Second).Should(Succeed())
		a.expectSays(ctx, "/readyz", "refuses this agent, as it does when the cluster is denied or removed")

		setAcceptance(ctx, one.Name, v1alpha1.AcceptanceAccepted)
		fleet.ExpectReady(ctx, one, "denied", 2)
		expectWatches(ctx, all)
		Expect(one.Agent).To(BeIdenticalTo(process))
		Expect(fleettest.Running(process)).To(BeTrue(), "it was not started again")
		expectWorking(ctx, two.Name)
	}, SpecTimeout(4*fleettest.Patience))
})

func expectWatches(ctx context.Context, want float64) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(watches(ctx, g)).To(Equal(want), "watches of agents that are open on the hub")
	}).Should(Succeed())
}

// watches counts the watches of Hollowfleet's kinds that are open on the hub and bound to a namespace: those of
// agents.
func watches(ctx context.Context, g Gomega) float64 {
	return fleettest.Sum(g, fleettest.ServerMetrics(ctx, g, fleet.HubConfig), "apiserver_longrunning_requests", func(labels map[string]string) bool {
		return labels["group"] == v1alpha1.GroupVersion.Group && labels["verb"] == "WATCH" && labels["scope"] == "namespace"
	})
}
