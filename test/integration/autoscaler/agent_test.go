package autoscaler

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// The other specs write themselves what an agent writes; here an agent does.
var _ = Describe("cluster-autoscaler with a hub, an agent and its Nodes", fleettest.Long, func() {
	// Claim: The autoscaler finds provider IDs and annotations on Nodes. Broken: the Node names another Machine.
	It("should know the Nodes, and scale them up and down", func(ctx SpecContext) {
		fleet := fleettest.Start(ctx, localfleet.Options{Clusters: []string{"c1"}})
		Expect(config.Apply(ctx, fleet.HubClient, config.RBAC, "rbac/autoscaler")).To(Succeed())
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "pool", 1, func(d *v1alpha1.MachineDeployment) { d.Annotations = sizes("0", "3") })
		player := newAutoscaler(ctx, credential(ctx, fleet.HubClient, fleet.HubConfig, member.Name), member.Name)
		pool := func() nodeGroup {
			GinkgoHelper()
			groups, err := player.nodeGroups()
			Expect(err).NotTo(HaveOccurred())
			Expect(groups).To(HaveLen(1))
			return groups["MachineDeployment/c1/pool"]
		}
		// nodes waits until the Nodes of the workload cluster and the instances of the group are the same, by the whole ID.
		nodes := func(count int) []corev1.Node {
			GinkgoHelper()
			var found []corev1.Node
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				found = fleettest.NodesOf(ctx, g, member, "pool")
				g.Expect(found).To(HaveLen(count))
				ids := []string{}
				for _, node := range found {
					ids = append(ids, node.Spec.ProviderID)
				}
				g.Expect(player.instances(pool())).To(ConsistOf(ids))
			}).Should(Succeed())
			return found
		}
		fleet.ExpectReady(ctx, member, "pool", 1)
		nodes(1)
		player.increase(ctx, pool(), 2)
		fleet.ExpectReady(ctx, member, "pool", 3)
		all := nodes(3)
		for i := range all {
			Expect(player.hasInstance(&all[i])).To(BeTrue(), all[i].Name)
			Expect(player.groupOf(all[i].Spec.ProviderID)).To(Equal(pool().id()))
		}
		Expect(player.deleteNodes(ctx, pool(), all[1].Spec.ProviderID)).To(Succeed())
		left := nodes(2)
		Expect([]string{left[0].Name, left[1].Name}).To(ConsistOf(all[0].Name, all[2].Name))
	})
})
