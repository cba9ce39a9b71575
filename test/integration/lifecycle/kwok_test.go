package lifecycle

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// kwokController is the process of kwok's controller below the agent of member.
func kwokController(member *localfleet.Member) []int {
	return slices.DeleteFunc(process.Descendants(member.Agent.PID()), func(pid int) bool { return filepath.Base(process.Program(pid)) != "kwok" })
}

// kwokDeployment makes a MachineClass of provider kwok and a MachineDeployment of it.
func kwokDeployment(ctx context.Context, member *localfleet.Member, name string, replicas int32) *v1alpha1.MachineDeployment {
	GinkgoHelper()
	class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: name + "-class"}}
	class.Spec.Provider = v1alpha1.ProviderKwok
	class.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"KwokNodeConfig","capacity":{"cpu":"8"},"maxPods":20}`)}
	Eventually(ctx, func(ctx context.Context) error { return fleet.HubClient.Create(ctx, class) }).Should(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, class))).To(Succeed()) })
	return fleet.NewDeployment(ctx, member, name, replicas, func(d *v1alpha1.MachineDeployment) {
		d.Spec.Template.Spec.ProviderConfig.ValueRef.Name = class.Name
		d.Spec.Template.Spec.Versions.Kubelet = "v1.36.0"
	})
}

// kwokNodes are the Nodes of a pool of kwok.
func kwokNodes(ctx context.Context, g Gomega, member *localfleet.Member, pool string) []corev1.Node {
	list := &corev1.NodeList{}
	g.Expect(member.Client.List(ctx, list, client.MatchingLabels{fleettest.PoolLabel: pool, v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue})).To(Succeed())
	return list.Items
}

func expectKwokReady(ctx context.Context, member *localfleet.Member, pool string, want int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		machines := fleet.MachinesOf(ctx, g, member, pool)
		g.Expect(machines).To(HaveLen(want))
		g.Expect(kwokNodes(ctx, g, member, pool)).To(HaveLen(want))
		for i := range machines {
			g.Expect(fleettest.MachineReady(&machines[i])).To(BeTrue(), "%s: %v", machines[i].Name, machines[i].Status.Conditions)
		}
	}).Should(Succeed())
}

var _ = Describe("A cluster with Machines of providers hollow and kwok", func() {
	It("should run, update, repair and remove both", fleettest.Long, func(ctx SpecContext) {
		if _, err := testenv.Binary("kwok"); err != nil {
			Skip("without kwok's controller: make build-kwok builds it")
		}
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "mixed-hollow", 2)
		played := kwokDeployment(ctx, member, "mixed-kwok", 3)
		fleet.ExpectReady(ctx, member, "mixed-hollow", 2)
		expectKwokReady(ctx, member, "mixed-kwok", 3)
		Expect(kwokController(member)).To(HaveLen(1))

		By("pods on Nodes of kwok")
		app := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-kwok"}}
		app.Spec.Replicas = ptr.To[int32](6)
		app.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app.Name}}
		app.Spec.Template.Labels = app.Spec.Selector.MatchLabels
		app.Spec.Template.Spec.NodeSelector = map[string]string{v1alpha1.HollowNodeLabel: v1alpha1.KwokNodeLabelValue}
		app.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "c"}}
		Expect(member.Client.Create(ctx, app)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(member.Client.Delete(ctx, app))).To(Succeed()) })
		available := func(ctx context.Context) (int32, error) {
			err := member.Client.Get(ctx, client.ObjectKeyFromObject(app), app)
			return app.Status.AvailableReplicas, err
		}
		Eventually(ctx, available).Should(BeEquivalentTo(6))

		By("a rollout of a version, which drains")
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"versions":{"kubelet":"v1.37.1"}}}}}`))
		Expect(fleet.HubClient.Patch(ctx, played.DeepCopy(), patch)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			nodes := kwokNodes(ctx, g, member, "mixed-kwok")
			g.Expect(nodes).To(HaveLen(3))
			for i := range nodes {
				g.Expect(nodes[i].Status.NodeInfo.KubeletVersion).To(Equal("v1.37.1"))
			}
		}).Should(Succeed())
		expectKwokReady(ctx, member, "mixed-kwok", 3)
		Eventually(ctx, available).Should(BeEquivalentTo(6))

		By("the loss of a Node")
		lost := kwokNodes(ctx, NewWithT(GinkgoT()), member, "mixed-kwok")[0]
		Expect(member.Client.Delete(ctx, &lost)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (types.UID, error) {
			again := &corev1.Node{}
			err := member.Client.Get(ctx, client.ObjectKeyFromObject(&lost), again)
			return again.UID, client.IgnoreNotFound(err)
		}).ShouldNot(Or(BeEmpty(), Equal(lost.UID)))
		expectKwokReady(ctx, member, "mixed-kwok", 3)

		By("a smaller pool")
		Expect(fleet.HubClient.Patch(ctx, played.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, 1)))).To(Succeed())
		expectKwokReady(ctx, member, "mixed-kwok", 1)
		Eventually(ctx, available).Should(BeEquivalentTo(6))
		// Last: the successor takes the Nodes over when their Leases have run out.
		By("the death of kwok's controller")
		first := kwokController(member)
		Expect(first).To(HaveLen(1))
		Expect(syscall.Kill(first[0], syscall.SIGKILL)).To(Succeed())
		Eventually(ctx, func() []int { return kwokController(member) }).Should(And(HaveLen(1), Not(Equal(first))))

		fleet.ExpectReady(ctx, member, "mixed-hollow", 2)
	}, SpecTimeout(5*fleettest.Patience))
})
