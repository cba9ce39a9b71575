package lifecycle

import (
	"context"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A MachineDeployment that replaces its Machines", func() {
	It("should keep to its surge and availability at every instant", func(ctx SpecContext) {
		p := newPool(ctx, "rolling", 4, rolling(2, 1))
		witness := fleet.Watch(ctx, p.member, p.Name)
		witness.Machines.Hold(fleettest.Bound{Least: 3, Most: 6})
		p.upgrade(ctx)
		Expect(p.rollout(ctx, "status")).To(ContainSubstring("has rolled out"))
		p.rolledOut(ctx, newer)
		witness.Expect(ctx, 8, 4)
	}, SpecTimeout(4*fleettest.Patience))

	It("should replace a Machine only when a user deletes it if the strategy is OnDelete", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "ondelete", 2, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.OnDelete})
		before := p.identities(ctx)
		p.upgrade(ctx)
		p.progresses(ctx, v1alpha1.ReasonAwaitingRequest)
		Expect(p.identities(ctx)).To(Equal(before))

		victim, other := p.machines(ctx)[0], p.machines(ctx)[1]
		Expect(fleet.HubClient.Delete(ctx, &victim)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(p.kubelets(ctx, g)).To(And(HaveLen(2), HaveKeyWithValue(other.Name, older), ContainElement(newer)))
		}).Should(Succeed(), "one of each template")
		fleet.ExpectReady(ctx, p.member, p.Name, 2)
		p.progresses(ctx, v1alpha1.ReasonAwaitingRequest)

		Expect(fleet.HubClient.Delete(ctx, &other)).To(Succeed())
		p.rolledOut(ctx, newer)
	}, SpecTimeout(4*fleettest.Patience))

	It("should remove all old Machines before it makes new ones if the strategy is Recreate", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "recreate", 3, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate})
		witness := fleet.Watch(ctx, p.member, p.Name)
		witness.Machines.Hold(fleettest.Bound{Most: 3})
		p.upgrade(ctx)
		p.rolledOut(ctx, newer)
		witness.Expect(ctx, 6, 3)
	}, SpecTimeout(4*fleettest.Patience))

	It("should finish although an old Machine is not available and none may be missing (CAPI PR #13020, MCM PR #733)", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "deadlock", 2, rolling(1, 0))
		ill := p.machines(ctx)[0]
		pod := fleettest.PodOf(ctx, NewWithT(GinkgoT()), p.member, ill.Name)
		pid, err := localfleet.HollowNodeProcess(pod.Name)
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(&ill), &ill)).To(Succeed())
			g.Expect(fleettest.MachineReady(&ill)).To(BeFalse())
		}).Should(Succeed(), "the kubelet of the Node is silent")

		witness := fleet.Watch(ctx, p.member, p.Name)
		witness.Machines.Hold(fleettest.Bound{Least: 1, Most: 3})
		p.upgrade(ctx)
		p.rolledOut(ctx, newer)
		witness.Machines.CatchUp(ctx)
		Expect(witness.Machines.Verdict()).To(BeEmpty())
	}, SpecTimeout(6*fleettest.Patience))

	It("should replace a lost Machine by its own template while it is paused (CAPI #3568)", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "paused", 2, rolling(1, 0))
		Expect(p.rollout(ctx, "pause")).To(ContainSubstring("paused"))
		p.upgrade(ctx)
		p.progresses(ctx, v1alpha1.ReasonPaused)
		lost := p.machines(ctx)[0]
		Expect(fleet.HubClient.Delete(ctx, &lost)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(p.kubelets(ctx, g)).To(And(HaveLen(2), Not(HaveKey(lost.Name)), HaveEach(older)))
		}).Should(Succeed(), "it heals with the old template")
		fleet.ExpectReady(ctx, p.member, p.Name, 2)

		Expect(p.rollout(ctx, "resume")).To(ContainSubstring("resumed"))
		p.rolledOut(ctx, newer)
	}, SpecTimeout(5*fleettest.Patience))

	It("should lose nothing to a kubelet that the API server does not support, and go back", fleettest.Long, func(ctx SpecContext) {
		p := newPool(ctx, "unsupported", 2, v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.Recreate})
		before := p.identities(ctx)
		witness := fleet.Watch(ctx, p.member, p.Name)
		witness.Machines.Hold(fleettest.Bound{Least: 2, Most: 2})
		p.edit(ctx, `{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.99.0"}}}}}`)
		p.progresses(ctx, v1alpha1.ReasonUnsupportedKubeletVersion)
		code, output := hollow(ctx, "rollout", "status", "machinedeployment", p.Name, "-n", p.Namespace)
		Expect(code).To(Equal(4), output)
		Expect(output).To(ContainSubstring(v1alpha1.AllowKubeletVersionSkewAnnotation), "it says what would help")
		Expect(meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.AvailableCondition)).To(BeTrue())

		Expect(p.rollout(ctx, "undo")).To(ContainSubstring("rolled back to revision 1"))
		p.rolledOut(ctx, older)
		Expect(p.identities(ctx)).To(Equal(before), "the earlier Machines still exist")
		witness.Machines.CatchUp(ctx)
		Expect(witness.Machines.Verdict()).To(BeEmpty())
	}, SpecTimeout(5*fleettest.Patience))
})
