package fleet

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// ownerLabel is one that a user has put on MachineDeployments.
const ownerLabel = "example.com/owner"

// expectCanaryFirst compares when the canary was proven with when the others got their new Machines: by the record of the hub,
// and by what the API server of the canary says of its Node, whatever the hub has recorded.
func expectCanaryFirst(ctx context.Context, kubelet string) {
	GinkgoHelper()
	g, canary := NewWithT(GinkgoT()), fleet.Members[0]
	proven := recordOf(ctx, g, canary)
	Expect(proven.Phase).To(Equal("Succeeded"))
	nodes := fleettest.NodesOf(ctx, g, canary, pool)
	Expect(nodes).To(HaveLen(1))
	Expect(nodes[0].Status.NodeInfo.KubeletVersion).To(Equal(kubelet))
	soaked := readySince(nodes[0]).Add(soak())
	for _, member := range fleet.Members[1:] {
		Expect(recordOf(ctx, g, member).Revision).To(Equal(proven.Revision))
		for _, machine := range fleet.MachinesOf(ctx, g, member, pool) {
			Expect(machine.Spec.Versions.Kubelet).To(Equal(kubelet), member.Name)
			Expect(machine.CreationTimestamp.Time).To(BeTemporally(">=", proven.Since.Truncate(time.Second)), "%s waits for the record of the canary", member.Name)
			Expect(machine.CreationTimestamp.Time).To(BeTemporally(">=", soaked), "%s waits until the Node of the canary was Ready for the soak", member.Name)
		}
	}
}

// readySince is when a Node became Ready.
func readySince(node corev1.Node) time.Time {
	GinkgoHelper()
	Expect(fleettest.NodeReady(node)).To(BeTrue(), node.Name)
	since := node.CreationTimestamp.Time
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.LastTransitionTime.After(since) {
			since = condition.LastTransitionTime.Time
		}
	}
	return since
}

// deployments are the MachineDeployments of all clusters, each with a label of a user's.
func deployments(ctx context.Context) (all []*v1alpha1.MachineDeployment) {
	GinkgoHelper()
	for _, member := range fleet.Members {
		deployment := deploymentOf(ctx, NewWithT(GinkgoT()), member)
		before := deployment.DeepCopy()
		metav1.SetMetaDataLabel(&deployment.ObjectMeta, ownerLabel, member.Name)
		Expect(fleet.HubClient.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
		all = append(all, deployment)
	}
	return all
}

// expectAdopted looks whether the fleet has taken the MachineDeployments over as they were: the same objects, with what is not
// the fleet's, whose new Machines follow a MachineSet that was there before.
func expectAdopted(ctx context.Context, before []*v1alpha1.MachineDeployment) {
	GinkgoHelper()
	for i, member := range fleet.Members {
		now := deploymentOf(ctx, NewWithT(GinkgoT()), member)
		Expect(now.UID).To(Equal(before[i].UID), "%s: it is the same object", member.Name)
		Expect(now.Labels).To(And(HaveKeyWithValue(ownerLabel, member.Name), HaveKeyWithValue(v1alpha1.MachineFleetNameLabel, workers.Name)))
		Expect(now.Spec.Replicas).To(Equal(before[i].Spec.Replicas), "%s: the fleet sets no replicas", member.Name)
		sets := setsOf(ctx, member)
		Expect(sets).To(ContainElement(And(
			HaveField("Spec.Template.Spec.Versions.Kubelet", before[i].Spec.Template.Spec.Versions.Kubelet), HaveField("Spec.Replicas", HaveValue(BeZero())),
		)), "%s: its earlier MachineSet was scaled down", member.Name)
	}
}

// machinesOf are the Machines of a cluster, each with its kubelet.
func machinesOf(ctx context.Context, member *localfleet.Member) (machines []string) {
	GinkgoHelper()
	for _, machine := range fleet.MachinesOf(ctx, NewWithT(GinkgoT()), member, pool) {
		machines = append(machines, machine.Name+" "+machine.Spec.Versions.Kubelet)
	}
	return machines
}

// machinesOfAll are those of some clusters, or of all, by cluster.
func machinesOfAll(ctx context.Context, members ...*localfleet.Member) map[string][]string {
	GinkgoHelper()
	if len(members) == 0 {
		members = fleet.Members
	}
	all := map[string][]string{}
	for _, member := range members {
		all[member.Name] = machinesOf(ctx, member)
	}
	return all
}

// specsOfAll are the specs of the MachineDeployments of all clusters, by cluster.
func specsOfAll(ctx context.Context) map[string]v1alpha1.MachineDeploymentSpec {
	GinkgoHelper()
	all := map[string]v1alpha1.MachineDeploymentSpec{}
	for _, member := range fleet.Members {
		all[member.Name] = deploymentOf(ctx, NewWithT(GinkgoT()), member).Spec
	}
	return all
}

// expectSpecs looks whether the MachineDeployments of all clusters are as they were.
func expectSpecs(ctx context.Context, before map[string]v1alpha1.MachineDeploymentSpec) {
	GinkgoHelper()
	now := specsOfAll(ctx)
	for _, member := range fleet.Members {
		Expect(now[member.Name]).To(Equal(before[member.Name]), "%s has what it had before", member.Name)
	}
}

func setsOf(ctx context.Context, member *localfleet.Member) []v1alpha1.MachineSet {
	GinkgoHelper()
	sets := &v1alpha1.MachineSetList{}
	Expect(fleet.HubClient.List(ctx, sets, client.InNamespace(member.Name))).To(Succeed())
	return sets.Items
}

// expectNoSet looks whether a cluster ever had a template: the MachineSets of earlier ones are kept.
func expectNoSet(ctx context.Context, member *localfleet.Member, of any) {
	GinkgoHelper()
	Expect(setsOf(ctx, member)).NotTo(ContainElement(of), "%s never had that template", member.Name)
}

// expectSelected waits until the fleet has so many clusters.
func expectSelected(ctx context.Context, clusters int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(workers), workers)).To(Succeed())
		g.Expect(workers.Status.Clusters.Selected).To(BeEquivalentTo(clusters))
	}).Should(Succeed())
}

// expectReady waits until the hub says that a cluster is Ready.
func expectReady(ctx context.Context, member *localfleet.Member) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		cluster := &v1alpha1.Cluster{}
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKey{Name: member.Name}, cluster)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ReadyCondition)).To(BeTrue(), "%v", cluster.Status.Conditions)
	}).Should(Succeed(), member.Name)
}

// expectMessage waits until the fleet says something.
func expectMessage(ctx context.Context, part string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(workers), workers)).To(Succeed())
		g.Expect(workers.Status.Message).To(ContainSubstring(part))
	}).Should(Succeed())
}
