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
})
