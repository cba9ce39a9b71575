package fleettest

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// PoolLabel is on every Machine and Node of a MachineDeployment, with its name.
const PoolLabel = "pool"

// NewDeployment makes the MachineDeployment name, its own MachineClass, and cleans both up after the spec.
func (f *Fleet) NewDeployment(ctx context.Context, member *localfleet.Member, name string, replicas int32, change ...func(*v1alpha1.MachineDeployment)) *v1alpha1.MachineDeployment {
	GinkgoHelper()
	class := &v1alpha1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: name},
		Spec:       v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderHollow},
	}
	Eventually(ctx, func(ctx context.Context) error { return f.HubClient.Create(ctx, class) }).Should(Succeed(), "the cluster's namespace must come")
	deployment := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: name},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: member.Name, Replicas: ptr.To(replicas),
			Selector: v1alpha1.MachineSelector{MatchLabels: map[string]string{PoolLabel: name}},
			Template: v1alpha1.MachineTemplate{
				Metadata: v1alpha1.TemplateMetadata{Labels: map[string]string{PoolLabel: name}},
				Spec: v1alpha1.MachineTemplateBody{
					NodeMetadata:   v1alpha1.NodeMetadata{Labels: map[string]string{PoolLabel: name}},
					ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: name}},
				},
			},
		},
	}
	for _, edit := range change {
		edit(deployment)
	}
	Expect(f.HubClient.Create(ctx, deployment)).To(Succeed())
	cleanUp := func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(f.HubClient.Delete(ctx, deployment, client.PropagationPolicy(metav1.DeletePropagationBackground)))).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(f.MachinesOf(ctx, g, member, name)).To(BeEmpty())
			g.Expect(NodesOf(ctx, g, member, name)).To(BeEmpty(), "no Node may be orphaned")
		}).Should(Succeed(), "deleting the MachineDeployment must remove everything")
		Expect(client.IgnoreNotFound(f.HubClient.Delete(ctx, class))).To(Succeed())
	}
	DeferCleanup(cleanUp, NodeTimeout(Patience+Patience/2))
	return deployment
}

// MachinesOf lists the Machines of pool.
func (f *Fleet) MachinesOf(ctx context.Context, g Gomega, member *localfleet.Member, pool string) []v1alpha1.Machine {
	list := &v1alpha1.MachineList{}
	g.Expect(f.HubClient.List(ctx, list, client.InNamespace(member.Name), client.MatchingLabels{PoolLabel: pool})).To(Succeed())
	return list.Items
}

// NodesOf lists the Nodes of pool.
func NodesOf(ctx context.Context, g Gomega, member *localfleet.Member, pool string) []corev1.Node {
	list := &corev1.NodeList{}
	g.Expect(member.Client.List(ctx, list, client.MatchingLabels{PoolLabel: pool, v1alpha1.HollowNodeLabel: "true"})).To(Succeed())
	return list.Items
}

// PodOf returns the one pod of machine.
func PodOf(ctx context.Context, g Gomega, member *localfleet.Member, machine string) *corev1.Pod {
	list := &corev1.PodList{}
	g.Expect(member.Client.List(ctx, list, client.MatchingLabels{v1alpha1.MachineNameLabel: machine})).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1), "one pod for Machine "+machine)
	return &list.Items[0]
}

// ExpectReady waits until the pool has want Machines and as many Nodes, all Ready and naming each other.
func (f *Fleet) ExpectReady(ctx context.Context, member *localfleet.Member, pool string, want int) []v1alpha1.Machine {
	GinkgoHelper()
	var machines []v1alpha1.Machine
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		if f.KeepHub {
			g.Expect(f.SuperviseHub(ctx)).To(Succeed())
		}
		machines = f.MachinesOf(ctx, g, member, pool)
		nodes := map[string]corev1.Node{}
		for _, node := range NodesOf(ctx, g, member, pool) {
			g.Expect(NodeReady(node)).To(BeTrue(), "Node %s is Ready", node.Name)
			nodes[node.Name] = node
		}
		g.Expect(machines).To(HaveLen(want))
		g.Expect(nodes).To(HaveLen(want))
		for _, machine := range machines {
			g.Expect(machine.Status.NodeRef).NotTo(BeNil())
			node := nodes[machine.Status.NodeRef.Name]
			g.Expect(machine.Status.NodeRef.UID).To(Equal(node.UID))
			g.Expect(machine.Spec.ProviderID).To(HaveValue(Equal(node.Spec.ProviderID)))
			g.Expect(MachineReady(&machine)).To(BeTrue(), "Machine %s is Ready", machine.Name)
		}
	}).Should(Succeed(), fmt.Sprintf("%d Machines of %s/%s Ready on both sides", want, member.Name, pool))
	return machines
}

// NodeReady reports whether node says that it is Ready.
func NodeReady(node corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// MachineReady reports whether machine is Ready.
func MachineReady(machine *v1alpha1.Machine) bool {
	return meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition)
}

// Scale asks for another number of Machines.
func (f *Fleet) Scale(ctx context.Context, deployment *v1alpha1.MachineDeployment, replicas int) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	Expect(f.HubClient.Patch(ctx, deployment, patch)).To(Succeed())
}
