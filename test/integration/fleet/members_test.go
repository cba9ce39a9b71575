package fleet

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	sizeLabel = "example.com/size"
	tierLabel = "example.com/tier"
)

// label sets a label of a Cluster for the spec.
func label(ctx context.Context, member *localfleet.Member, key, value string) {
	GinkgoHelper()
	set := func(ctx context.Context, value string) error {
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value)
		return fleet.HubClient.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch))
	}
	Expect(set(ctx, fmt.Sprintf("%q", value))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) error { return set(ctx, "null") })
}

// override is one for the clusters with a label.
func override(key, value string) v1alpha1.MachineFleetOverride {
	return v1alpha1.MachineFleetOverride{Name: value, ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

// describeOverrides has the specs in which clusters of one fleet get something else than the others.
func describeOverrides() {
	// Claim: Overrides reach only the clusters they choose, merged. Broken: every cluster gets the fleet's own template.
	It("should give a cluster the replicas and the template of its overrides", fleettest.Long, func(ctx SpecContext) {
		large, gold, others := fleet.Members[2], fleet.Members[3], fleet.Members[:2]
		label(ctx, large, sizeLabel, "large")
		label(ctx, gold, tierLabel, "gold")
		machines, kept := machinesOfAll(ctx, others...), machinesOf(ctx, large)
		kubelet := workers.Spec.Template.Spec.Template.Spec.Versions.Kubelet
		size, tier := override(sizeLabel, "large"), override(tierLabel, "gold")
		size.Replicas = new(int32(2))
		tier.Template = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":{"spec":{"metadata":{"labels":{%q:"gold"}}}}}}`, tierLabel)}
		edit(ctx, func() { workers.Spec.Overrides = []v1alpha1.MachineFleetOverride{size, tier} })
		expectProgress(ctx, v1alpha1.ReasonRolloutComplete)

		fleet.ExpectReady(ctx, large, pool, 2)
		Expect(machinesOf(ctx, large)).To(ContainElements(kept), "what is there already stays")
		g := NewWithT(GinkgoT())
		changed := fleet.ExpectReady(ctx, gold, pool, 1)
		Expect(changed[0].Spec.NodeMetadata.Labels).To(Equal(map[string]string{tierLabel: "gold", fleettest.PoolLabel: pool}), "the labels are merged")
		Expect(changed[0].Spec.Versions.Kubelet).To(Equal(kubelet), "the rest is the fleet's")
		Expect(fleettest.NodesOf(ctx, g, gold, pool)).To(HaveEach(HaveField("Labels", HaveKeyWithValue(tierLabel, "gold"))))
		for _, member := range fleet.Members[:3] {
			Expect(fleettest.NodesOf(ctx, g, member, pool)).To(HaveEach(HaveField("Labels", Not(HaveKey(tierLabel)))), member.Name)
		}
		Expect(machinesOfAll(ctx, others...)).To(Equal(machines), "no Machine is replaced where no override holds")

		edit(ctx, func() { workers.Spec.Overrides = nil })
		expectProgress(ctx, v1alpha1.ReasonRolloutComplete)
		fleet.ExpectReady(ctx, large, pool, 2) // Without replicas in the fleet they are what they were.
		fleet.Scale(ctx, deploymentOf(ctx, g, large), 1)
		expectRolledOut(ctx, kubelet)
		Expect(fleettest.NodesOf(ctx, g, gold, pool)).To(HaveEach(HaveField("Labels", Not(HaveKey(tierLabel)))))
	}, SpecTimeout(2*fleettest.Patience))
}

// describeLateClusters has the specs in which a cluster that was not there before joins a fleet.
func describeLateClusters() {
	// Claim: A cluster that joins a complete fleet is brought up alone. Broken: one that is late never has its turn.
	It("should bring up a cluster that joins when the rollout is complete", fleettest.Long, func(ctx SpecContext) {
		late, others := fleet.Members[3], fleet.Members[:3]
		setStage(ctx, late, "")
		expectSelected(ctx, len(others))
		// It is like a cluster that has just joined the hub.
		left := deploymentOf(ctx, NewWithT(GinkgoT()), late)
		Expect(fleet.HubClient.Delete(ctx, left, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.MachinesOf(ctx, g, late, pool)).To(BeEmpty())
			g.Expect(fleettest.NodesOf(ctx, g, late, pool)).To(BeEmpty())
		}).Should(Succeed())
		kubelet := upgrade(ctx)
		expectKubelets(ctx, kubelet, others...)
		expectProgress(ctx, v1alpha1.ReasonRolloutComplete)
		Expect(workers.Status.Clusters.Selected).To(BeEquivalentTo(len(others)))
		Expect(machinesOf(ctx, late)).To(BeEmpty(), "nothing is made in a cluster that is not selected")
		machines := machinesOfAll(ctx, others...)

		setStage(ctx, late, localfleet.StageProduction)
		expectSelected(ctx, len(fleet.Members))
		expectRolledOut(ctx, kubelet)
		made := deploymentOf(ctx, NewWithT(GinkgoT()), late)
		Expect(made.UID).NotTo(Equal(left.UID))
		Expect(made.Labels).To(HaveKeyWithValue(v1alpha1.MachineFleetNameLabel, workers.Name))
		Expect(recordOf(ctx, NewWithT(GinkgoT()), late)).To(And(HaveField("Phase", "Succeeded"), HaveField("Revision", workers.Status.Revision)))
		Expect(machinesOfAll(ctx, others...)).To(Equal(machines), "the others are left alone")
	}, SpecTimeout(2*fleettest.Patience))

	// It is the last spec: the cluster stays in the fleet.
	// Claim: A cluster that joins mid-rollout starts with its wave and stops nothing. Broken: the turn of one that is late has always come. Also: hub/internal/fleet TestAClusterThatJoinsInMidRolloutIsLate.
	It("should take in a cluster whose own agent joins in mid-rollout", fleettest.Long, func(ctx SpecContext) {
		canary, others := fleet.Members[0], fleet.Members[1:]
		kubelet := upgrade(ctx)
		expectPhase(ctx, canary, "Progressing")
		thaw := freeze(ctx, canary)
		Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(recordOf(ctx, g, canary)).To(HaveField("Held", true)) }).
			Should(Succeed(), "the rollout stands in its first wave")

		fifth, err := fleet.Add(ctx, "c5")
		Expect(err).NotTo(HaveOccurred())
		expectSelected(ctx, len(fleet.Members))
		expectReady(ctx, fifth)
		expectMessage(ctx, "joined since the rollout started: "+fifth.Name)
		Expect(recordsOf(ctx, NewWithT(GinkgoT()))).NotTo(HaveKey(fifth.Name), "its wave has not come")
		Expect(begun(ctx)).To(Equal(1), "only the canary has been started")

		// Without its MachineClass the new cluster fails.
		Expect(thaw(ctx)).To(Succeed())
		expectPhase(ctx, fifth, "Failed")
		expectKubelets(ctx, kubelet, append(slices.Clone(others), canary)...)
		expectProgress(ctx, v1alpha1.ReasonRolloutComplete)
		Expect(workers.Status.Clusters).To(And(HaveField("Updated", BeEquivalentTo(1+len(others))), HaveField("Failed", BeEquivalentTo(1))), "its failure stops nothing")
		Expect(workers.Status.Failures).To(ConsistOf(And(HaveField("Cluster", fifth.Name), HaveField("Message", ContainSubstring("MachineClass")))))
		Expect(meta.FindStatusCondition(workers.Status.Conditions, v1alpha1.ReadyCondition)).To(
			HaveValue(HaveField("Reason", v1alpha1.ReasonRolloutFailed)))

		Expect(fleet.HubClient.Create(ctx, localfleet.Workers(fifth.Name, 1, "")[0])).To(Succeed())
		expectRolledOut(ctx, kubelet)
		expectCanaryFirst(ctx, kubelet)
	}, SpecTimeout(3*fleettest.Patience))
}
