package lifecycle

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// expectKept waits until so many Machines of a pool are kept from joining, and the others have joined, and that this stays so.
func expectKept(ctx context.Context, pool string, kept, joined int) {
	GinkgoHelper()
	member := fleet.Members[0]
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		machines := fleet.MachinesOf(ctx, g, member, pool)
		g.Expect(machines).To(HaveLen(kept + joined))
		for i := range machines {
			g.Expect(fleettest.PodOf(ctx, g, member, machines[i].Name).Status.StartTime).NotTo(BeNil(), "its hollow node runs")
		}
		g.Expect(nodeNames(ctx, g, pool)).To(HaveLen(joined))
	}).Should(Succeed(), "all Machines of %s have their pods, and some their Nodes", pool)
	// A hollow node joins in about 2 seconds.
	Consistently(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(nodeNames(ctx, g, pool)).To(HaveLen(joined))
	}).WithTimeout(8*time.Second).Should(Succeed(), "the others of %s do not join", pool)
}

func nodeNames(ctx context.Context, g Gomega, pool string) []string {
	var names []string
	for _, node := range fleettest.NodesOf(ctx, g, fleet.Members[0], pool) {
		names = append(names, node.Name)
	}
	return names
}

var _ = Describe("A NodeDisruption with NeverJoin", func() {
	// Claim: NeverJoin hits Machines created during a run, over restarts. Broken: the driver renders the pod without its plan. Also: agent/internal/disruption TestAPodIsCreatedWithItsPlanAndTheHubKnowsFirst, TestNeverJoinHitsAsManyAsItsModeSays, TestAMachineThatCameIsRestored; agent/driver/hollow TestAPodHasItsPlanFromTheBeginning.
	It("should keep Machines from joining that come while it runs, over a restart of the agent, until it is deleted", func(ctx SpecContext) {
		member := fleet.Members[0]
		deployment := fleet.NewDeployment(ctx, member, "latecomers", 1)
		fleet.ExpectReady(ctx, member, "latecomers", 1)
		made := disruption(ctx, "latecomers", time.Hour, func(spec *v1alpha1.NodeDisruptionSpec) {
			spec.Faults = []disrupt.Fault{{Type: disrupt.NeverJoin}}
			spec.Target.Mode, spec.Target.Value = disrupt.ModeFixed, 2
		})
		run := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: made.Name}}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
			g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionRunning))
		}).Should(Succeed(), "the run is in progress, although nobody is about to join")

		fleet.Scale(ctx, deployment, 4)
		expectKept(ctx, "latecomers", 2, 2)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
			g.Expect(run.Status).To(And(HaveField("Selected", BeEquivalentTo(2)), HaveField("Injected", BeEquivalentTo(2)), HaveField("Observed", BeEquivalentTo(2))))
		}).Should(Succeed(), "the run tells whom it hit")

		mend, err := fleet.Break(ctx, fleettest.Fault{Part: fleettest.Agent, Way: fleettest.Kill}, member)
		Expect(err).NotTo(HaveOccurred())
		Expect(mend(ctx)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(fleet.Supervise(ctx)).To(Succeed()) }).Should(Succeed())
		expectKept(ctx, "latecomers", 2, 2)
		Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
		Expect(run.Status.Selected).To(BeEquivalentTo(2), "a restarted agent hits nobody else")

		Expect(fleet.HubClient.Delete(ctx, made)).To(Succeed())
		fleet.ExpectReady(ctx, member, "latecomers", 4)
	}, SpecTimeout(6*fleettest.Patience))
})
