package faults

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A user's freeze", func() {
	It("should keep pod and Node of a deleted Machine", func(ctx SpecContext) {
		fleet.NewDeployment(ctx, broken, "manual", 1)
		machine := fleet.ExpectReady(ctx, broken, "manual", 1)[0]
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: broken.Name}}
		set := func(value string) {
			Expect(fleet.HubClient.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"hollowfleet.io/freeze":`+value+`}}}`)))).To(Succeed())
		}
		set(`"maintenance"`)
		DeferCleanup(func(ctx SpecContext) {
			Expect(fleet.HubClient.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"hollowfleet.io/freeze":null}}}`)))).To(Succeed())
		})
		expectCondition(ctx, broken, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonManualFreeze)
		Expect(fleet.HubClient.Delete(ctx, &machine)).To(Succeed())
		Consistently(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleettest.PodOf(ctx, g, broken, machine.Name).DeletionTimestamp).To(BeNil())
			g.Expect(fleettest.NodesOf(ctx, g, broken, "manual")).To(HaveLen(1))
		}).WithTimeout(still).WithPolling(fleettest.Glance).Should(Succeed(), "frozen means frozen")
	}, SpecTimeout(fleettest.Patience))

	It("should stop the hub alone when it is one of a MachineDeployment: a deletion that is ordered is carried out, and nothing made instead", fleettest.Long, func(ctx SpecContext) {
		deployment := fleet.NewDeployment(ctx, broken, "held", 2)
		machine := fleet.ExpectReady(ctx, broken, "held", 2)[0]
		seen := fleet.Watch(ctx, broken, "held")
		set := func(value string) {
			Expect(fleet.HubClient.Patch(ctx, deployment, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"hollowfleet.io/freeze":`+value+`}}}`)))).To(Succeed())
		}
		set(`"looking into it"`)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(get(ctx, g, fleet.HubClient, deployment.DeepCopy()).Labels).To(HaveKeyWithValue(v1alpha1.FrozenLabel, v1alpha1.ReasonManualFreeze))
			sets := &v1alpha1.MachineSetList{}
			g.Expect(fleet.HubClient.List(ctx, sets, client.InNamespace(broken.Name), client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: deployment.Name})).To(Succeed())
			g.Expect(sets.Items).To(HaveLen(1))
			g.Expect(sets.Items[0].Labels).To(HaveKeyWithValue(v1alpha1.FrozenLabel, v1alpha1.ReasonManualFreeze))
		}).Should(Succeed())
		Expect(fleet.HubClient.Delete(ctx, &machine)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.MachinesOf(ctx, g, broken, "held")).To(HaveLen(1))
			g.Expect(fleettest.NodesOf(ctx, g, broken, "held")).To(HaveLen(1))
		}).Should(Succeed(), "the agent knows of the freeze of its cluster only")
		expectStill(ctx, broken, "held")

		set("null")
		fleet.ExpectReady(ctx, broken, "held", 2)
		seen.Expect(ctx, 3, 1)
	}, SpecTimeout(4*fleettest.Patience))
})
