package lifecycle

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A MachineDeployment with strategy InPlace", func() {
	It("should keep every Machine and Node, and update one at a time under a workload", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "auto", 3, inPlace(v1alpha1.InPlaceAuto))
		web := fleet.NewWorkload(ctx, p.member, p.Name, 4, 3)
		before, cordons := p.identities(ctx), p.cordons(ctx)

		p.upgrade(ctx)
		p.rolledOut(ctx, newer)
		Expect(p.identities(ctx)).To(Equal(before), "nothing is replaced")
		ever, most := cordons.seen()
		Expect(ever).To(HaveLen(3), "every Node is cordoned first")
		Expect(most).To(Equal(1), "maxUnavailable is 1")
		for _, node := range fleettest.NodesOf(ctx, NewWithT(GinkgoT()), p.member, p.Name) {
			Expect(node.Spec.Unschedulable).To(BeFalse(), "Node %s takes pods again", node.Name)
		}
		Eventually(ctx, web.Available).Should(Equal(4))
		Expect(web.Verdict()).To(BeEmpty(), "the disruption budget holds at every instant")
	}, SpecTimeout(5*fleettest.Patience))

	It("should update a Machine only when its label says so if the trigger is Manual", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "manual", 2, inPlace(v1alpha1.InPlaceManual))
		before, cordons := p.identities(ctx), p.cordons(ctx)
		p.upgrade(ctx)
		p.progresses(ctx, v1alpha1.ReasonAwaitingRequest)
		ever, _ := cordons.seen()
		Expect(ever).To(BeEmpty())

		chosen, other := p.machines(ctx)[0], p.machines(ctx)[1]
		label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+v1alpha1.UpdateInPlaceLabel+`":"true"}}}`))
		Expect(fleet.HubClient.Patch(ctx, &chosen, label)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(p.kubelets(ctx, g)).To(Equal(map[string]string{chosen.Name: newer, other.Name: older}))
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(&chosen), &chosen)).To(Succeed())
			g.Expect(fleettest.MachineReady(&chosen)).To(BeTrue())
		}).Should(Succeed())
		Expect(chosen.Labels).NotTo(HaveKey(v1alpha1.UpdateInPlaceLabel))
		p.progresses(ctx, v1alpha1.ReasonAwaitingRequest)

		Expect(fleet.HubClient.Patch(ctx, &other, label)).To(Succeed())
		p.rolledOut(ctx, newer)
		Expect(p.identities(ctx)).To(Equal(before), "nothing is replaced")
	}, SpecTimeout(5*fleettest.Patience))

	It("should go back in place, with the fields that replace nothing (CAPI #8392)", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "undone", 2, inPlace(v1alpha1.InPlaceAuto))
		before := p.identities(ctx)
		tiers := func(g Gomega, ctx context.Context) (tiers []string) {
			for _, node := range fleettest.NodesOf(ctx, g, p.member, p.Name) {
				tiers = append(tiers, node.Labels["tier"]+" "+node.Status.NodeInfo.KubeletVersion)
			}
			return tiers
		}
		p.edit(ctx, `{"spec":{"template":{"spec":{"metadata":{"labels":{"tier":"gold"}}}}}}`)
		Eventually(ctx, tiers).Should(HaveEach("gold " + older))
		p.edit(ctx, `{"spec":{"template":{"spec":{"metadata":{"labels":{"tier":"silver"}},"versions":{"kubelet":"`+newer+`"}}}}}`)
		p.rolledOut(ctx, newer)
		Eventually(ctx, tiers).Should(HaveEach("silver " + newer))

		Expect(p.rollout(ctx, "undo")).To(ContainSubstring("rolled back to revision 1"))
		Expect(p.rollout(ctx, "status")).To(ContainSubstring("has rolled out"))
		p.rolledOut(ctx, older)
		Eventually(ctx, tiers).Should(HaveEach("gold " + older))
		Expect(p.identities(ctx)).To(Equal(before), "nothing is replaced")
		Expect(p.rollout(ctx, "history")).To(ContainSubstring("3"), "the old template has a new revision")

		code, output := hollow(ctx, "rollout", "undo", "machinedeployment", p.Name, "-n", p.Namespace, "--to-revision", "9")
		Expect(code).NotTo(BeZero())
		Expect(output).To(ContainSubstring("9"), "it has no such revision")
	}, SpecTimeout(5*fleettest.Patience))

	It("should let a Machine go that is deleted while it is updated", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "torn", 2, inPlace(v1alpha1.InPlaceAuto))
		// No pod of the workload may go, so the drain for the update cannot end by itself.
		web := fleet.NewWorkload(ctx, p.member, p.Name, 2, 2)
		p.upgrade(ctx)
		var torn v1alpha1.Machine
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			torn = v1alpha1.Machine{}
			for _, machine := range fleet.MachinesOf(ctx, g, p.member, p.Name) {
				updated := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
				if updated != nil && updated.Reason == v1alpha1.ReasonDraining {
					torn = machine
				}
			}
			g.Expect(torn.Name).NotTo(BeEmpty(), "a Machine is drained for its update")
		}).Should(Succeed())

		Expect(fleet.HubClient.Delete(ctx, &torn)).To(Succeed())
		web.Scale(ctx, 0, 0)
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsNotFound(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(&torn), &v1alpha1.Machine{}))
		}).Should(BeTrue(), "the Machine goes")
		Expect(apierrors.IsNotFound(p.member.Client.Get(ctx, client.ObjectKey{Name: torn.Name}, &corev1.Node{}))).To(BeTrue(), "no Node may be orphaned")
		p.rolledOut(ctx, newer)
	}, SpecTimeout(5*fleettest.Patience))
})
