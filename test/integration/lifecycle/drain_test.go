package lifecycle

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A Machine under a workload", func() {
	It("should be drained within the disruption budget before it is removed", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "drained", 2)
		machines := fleet.ExpectReady(ctx, member, "drained", 2)
		web := fleet.NewWorkload(ctx, member, "drained", 6, 5)
		victim := machines[0]
		Expect(web.On(ctx, NewWithT(GinkgoT()), victim.Name)).To(BeNumerically(">=", 2), "the drain has to take more than one round")

		Expect(fleet.HubClient.Delete(ctx, &victim)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) bool {
			return apierrors.IsNotFound(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(&victim), &victim))
		}).Should(BeTrue(), "the Machine goes")
		Expect(apierrors.IsNotFound(member.Client.Get(ctx, client.ObjectKey{Name: victim.Name}, &corev1.Node{}))).To(BeTrue(), "no Node may be orphaned")
		fleet.ExpectReady(ctx, member, "drained", 2)
		Eventually(ctx, web.Available).Should(Equal(6), "the workload runs elsewhere")
		Expect(web.Verdict()).To(BeEmpty(), "the budget holds at every instant")
	}, SpecTimeout(4*fleettest.Patience))

	It("should keep its Node when it is updated in place", fleettest.Long, func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "inplace", 2)
		machines := fleet.ExpectReady(ctx, member, "inplace", 2)
		web := fleet.NewWorkload(ctx, member, "inplace", 4, 3)
		machine := machines[0]
		node := &corev1.Node{}
		Expect(member.Client.Get(ctx, client.ObjectKey{Name: machine.Name}, node)).To(Succeed())
		uid := node.UID

		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"versions":{"kubelet":"v1.36.2"}}}`))
		Expect(fleet.HubClient.Patch(ctx, &machine, patch)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(&machine), &machine)).To(Succeed())
			updated := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
			g.Expect(updated).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonUpToDate), HaveField("ObservedGeneration", machine.Generation))))
			g.Expect(fleettest.MachineReady(&machine)).To(BeTrue())
			g.Expect(machine.Status.Versions).To(HaveValue(HaveField("Kubelet", "v1.36.2")))
		}).Should(Succeed(), "the Machine is updated")
		Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineRunning))

		Expect(member.Client.Get(ctx, client.ObjectKey{Name: machine.Name}, node)).To(Succeed())
		Expect(node.UID).To(Equal(uid), "the Node is the same")
		Expect(node.Status.NodeInfo.KubeletVersion).To(Equal("v1.36.2"))
		Expect(node.Spec.Unschedulable).To(BeFalse(), "it takes pods again")
		Expect(node.Annotations).NotTo(HaveKey(v1alpha1.NodeCordonedAnnotation))
		Eventually(ctx, web.Available).Should(Equal(4))
		Expect(web.Verdict()).To(BeEmpty(), "the budget holds at every instant")
	}, SpecTimeout(4*fleettest.Patience))

	It("should refuse a kubelet that the API server does not support", fleettest.Long, func(ctx SpecContext) {
		member := fleet.Members[0]
		template := fleet.NewDeployment(ctx, member, "skewed", 0).Spec.Template
		template.Spec.Versions.Kubelet = "v1.99.0"
		machine := &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: "skewed", Labels: template.Metadata.Labels},
			Spec:       v1alpha1.MachineSpec{ClusterName: member.Name, MachineTemplateBody: template.Spec},
		}
		Expect(fleet.HubClient.Create(ctx, machine)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(fleet.HubClient.Delete(ctx, machine)).To(Succeed()) })
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			machines := fleet.MachinesOf(ctx, g, member, "skewed")
			g.Expect(machines).To(HaveLen(1))
			g.Expect(machines[0].Status.Phase).To(Equal(v1alpha1.MachineFailed))
			g.Expect(machines[0].Status.ErrorReason).To(Equal(v1alpha1.ErrorUnsupportedKubeletVersion))
			g.Expect(machines[0].Status.FailureMessage).To(ContainSubstring(v1alpha1.AllowKubeletVersionSkewAnnotation))
		}).Should(Succeed())
		Expect(fleettest.NodesOf(ctx, NewWithT(GinkgoT()), member, "skewed")).To(BeEmpty())
	}, SpecTimeout(3*fleettest.Patience))
})
