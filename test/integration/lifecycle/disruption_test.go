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
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// disruption lets the Nodes of a MachineDeployment be not ready.
func disruption(ctx context.Context, name string, lasts time.Duration) *v1alpha1.NodeDisruption {
	GinkgoHelper()
	made := &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.Spec.Target.MachineDeployment = name
	made.Spec.Faults = []disrupt.Fault{{Type: disrupt.NotReady}}
	made.Spec.Timing.Duration = metav1.Duration{Duration: lasts}
	Expect(fleet.HubClient.Create(ctx, made)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, made))).To(Succeed())
	})
	return made
}

// expectNodes waits until the Nodes of a MachineDeployment are all Ready, or none is.
func expectNodes(ctx context.Context, pool string, ready bool) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		nodes := fleettest.NodesOf(ctx, g, fleet.Members[0], pool)
		g.Expect(nodes).NotTo(BeEmpty())
		for _, node := range nodes {
			g.Expect(fleettest.NodeReady(node)).To(Equal(ready), node.Name)
		}
	}).Should(Succeed(), "the Nodes of %s are Ready: %t", pool, ready)
}

var _ = Describe("A NodeDisruption", func() {
	It("should let Nodes fail, and restore them when it is deleted", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "disrupted", 1)
		fleet.NewDeployment(ctx, member, "spared", 1)
		fleet.ExpectReady(ctx, member, "disrupted", 1)
		fleet.ExpectReady(ctx, member, "spared", 1)
		made := disruption(ctx, "disrupted", time.Hour)
		expectNodes(ctx, "disrupted", false)
		expectNodes(ctx, "spared", true)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(made), made)).To(Succeed())
			g.Expect(made.Status).To(And(HaveField("Clusters", BeEquivalentTo(1)), HaveField("Injected", BeEquivalentTo(1)), HaveField("Observed", BeEquivalentTo(1))))
		}).Should(Succeed(), "the hub sums up what the agent says")
		Expect(fleet.HubClient.Delete(ctx, made)).To(Succeed())
		expectNodes(ctx, "disrupted", true)
	}, SpecTimeout(4*fleettest.Patience))

	It("should end by itself while the agent is away, and be told when it is back", func(ctx SpecContext) {
		testenv.Long(GinkgoTB())
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "alone", 1)
		fleet.ExpectReady(ctx, member, "alone", 1)
		made := disruption(ctx, "alone", 40*time.Second)
		expectNodes(ctx, "alone", false)
		mend, err := fleet.Break(ctx, fleettest.Fault{Part: fleettest.Agent, Way: fleettest.Kill}, member)
		Expect(err).NotTo(HaveOccurred())
		expectNodes(ctx, "alone", true)
		Expect(mend(ctx)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.Supervise(ctx)).To(Succeed())
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(made), made)).To(Succeed())
			g.Expect(made.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Injected", BeEquivalentTo(1))))
		}).Should(Succeed(), "the run is over")
	}, SpecTimeout(6*fleettest.Patience))
})
