package ocm

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// stage is the label by which the fleet's groups choose.
const stage = "stage"

// settled is longer than the hub waits for decisions to settle.
const settled = 40 * time.Second

// placedFleet creates a MachineFleet of no machines over the clusters of a Placement: the canary first, and then, when a user
// has approved it, the rest.
func placedFleet(ctx context.Context, placement string) *v1alpha1.MachineFleet {
	GinkgoHelper()
	labels := map[string]string{"app": "x"}
	fleet := &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: newName()}, Spec: v1alpha1.MachineFleetSpec{
		PlacementRef:  &v1alpha1.PlacementReference{Namespace: placements, Name: placement},
		Replicas:      new(int32(0)),
		RemovalPolicy: v1alpha1.RemovalDelete,
		Groups: []v1alpha1.MachineFleetGroup{
			{Name: "canary", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{stage: "canary"}}},
			{Name: "rest", ClusterSelector: &metav1.LabelSelector{}, Approval: v1alpha1.GroupApprovalRequired},
		},
		RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.ProgressivePerGroup},
		Template: v1alpha1.MachineDeploymentTemplate{Spec: v1alpha1.MachineDeploymentTemplateSpec{
			Selector: v1alpha1.MachineSelector{MatchLabels: labels},
			Template: v1alpha1.MachineTemplate{
				Metadata: v1alpha1.TemplateMetadata{Labels: labels},
				Spec: v1alpha1.MachineTemplateBody{
					Versions: v1alpha1.MachineVersions{Kubelet: "v1.36.2"}, ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "small"}},
				},
			},
		}},
	}}
	Expect(api.Create(ctx, fleet)).To(Succeed())
	return fleet
}

// editFleet changes a fleet as it is stored.
func editFleet(ctx context.Context, fleet *v1alpha1.MachineFleet, change func(*v1alpha1.MachineFleet)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(fleet), fleet); err != nil {
			return err
		}
		change(fleet)
		return api.Update(ctx, fleet)
	}).Should(Succeed())
}

// approveRest approves the current rollout of the fleet for all its clusters.
func approveRest(ctx context.Context, fleet *v1alpha1.MachineFleet) {
	GinkgoHelper()
	Expect(api.Get(ctx, client.ObjectKeyFromObject(fleet), fleet)).To(Succeed())
	Expect(api.Create(ctx, fleettest.ApprovalOf(fleet, "rest"))).To(Succeed())
}

// kubelets are the versions that the fleet has given to clusters; empty without a MachineDeployment.
func kubelets(ctx context.Context, fleet *v1alpha1.MachineFleet, clusters ...string) func() []string {
	return func() []string {
		GinkgoHelper()
		var all []string
		for _, cluster := range clusters {
			deployment := &v1alpha1.MachineDeployment{}
			err := api.Get(ctx, client.ObjectKey{Namespace: cluster, Name: fleet.Name}, deployment)
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			all = append(all, deployment.Spec.Template.Spec.Versions.Kubelet)
		}
		return all
	}
}

// reasonOf is that of a fleet's condition.
func reasonOf(ctx context.Context, fleet *v1alpha1.MachineFleet, kind string) func() string {
	return func() string {
		GinkgoHelper()
		Expect(api.Get(ctx, client.ObjectKeyFromObject(fleet), fleet)).To(Succeed())
		if found := meta.FindStatusCondition(fleet.Status.Conditions, kind); found != nil {
			return found.Reason
		}
		return ""
	}
}

// taint adds a taint to a mirror, or takes it away.
func taint(ctx context.Context, name string, tainted bool) {
	GinkgoHelper()
	const key = "example.com/maintenance"
	Eventually(func() error {
		mirror := managed(ctx, name)
		mirror.Spec.Taints = slices.DeleteFunc(mirror.Spec.Taints, func(t clusterv1.Taint) bool { return t.Key == key })
		if tainted {
			mirror.Spec.Taints = append(mirror.Spec.Taints, clusterv1.Taint{Key: key, Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.Now()})
		}
		return api.Update(ctx, mirror)
	}).Should(Succeed())
}

// rollOutByPlacement lets the placement controller choose the clusters of a MachineFleet.
func rollOutByPlacement(ctx context.Context) {
	GinkgoHelper()
	bindDefaultSet(ctx)
	inZone := newName()
	canary, second, third, elsewhere := newName(), newName(), newName(), newName()
	for _, name := range []string{canary, second, third} {
		joinWithAgent(ctx, name, inZone)
	}
	joinWithAgent(ctx, elsewhere, "elsewhere")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+stage+`":"canary"}}}`))
	Expect(api.Patch(ctx, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: canary}}, patch)).To(Succeed())

	By("a fleet whose Placement does not exist")
	fleet := placedFleet(ctx, inZone)
	Eventually(reasonOf(ctx, fleet, v1alpha1.ProgressingCondition)).Should(Equal(v1alpha1.ReasonPlacementNotFound))
	editFleet(ctx, fleet, func(fleet *v1alpha1.MachineFleet) { fleet.Spec.PlacementRef.Name = place(ctx, inZone) })

	By("choosing by labels")
	patch = client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+clusterv1beta2.ClusterSetLabel+`":"`+defaultSet+`"}}}`))
	for _, name := range []string{canary, second, third, elsewhere} {
		Expect(api.Patch(ctx, managed(ctx, name), patch)).To(Succeed())
	}
	all := []string{canary, second, third, elsewhere}
	Eventually(kubelets(ctx, fleet, all...)).Should(Equal([]string{"v1.36.2", "", "", ""}))
	Eventually(reasonOf(ctx, fleet, v1alpha1.ProgressingCondition)).Should(Equal(v1alpha1.ReasonAwaitingApproval))
	approveRest(ctx, fleet)
	Eventually(kubelets(ctx, fleet, all...)).Should(Equal([]string{"v1.36.2", "v1.36.2", "v1.36.2", ""}))
	Eventually(reasonOf(ctx, fleet, v1alpha1.ReadyCondition)).Should(Equal(v1alpha1.ReasonReady))

	By("a taint in the middle of a rollout")
	editFleet(ctx, fleet, func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RemovalPolicy = v1alpha1.RemovalOrphan
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.37.1"
	})
	Eventually(kubelets(ctx, fleet, all...)).Should(Equal([]string{"v1.37.1", "v1.36.2", "v1.36.2", ""}))
	Eventually(reasonOf(ctx, fleet, v1alpha1.ProgressingCondition)).Should(Equal(v1alpha1.ReasonAwaitingApproval))
	taint(ctx, second, true)
	Eventually(decided(ctx, fleet.Spec.PlacementRef.Name)).Should(HaveLen(2))
	Eventually(func() int32 {
		Expect(api.Get(ctx, client.ObjectKeyFromObject(fleet), fleet)).To(Succeed())
		return fleet.Status.Clusters.Selected
	}).Should(BeEquivalentTo(2))
	approveRest(ctx, fleet)
	Eventually(kubelets(ctx, fleet, all...)).Should(Equal([]string{"v1.37.1", "v1.36.2", "v1.37.1", ""}), "the one that has left is left as it was")
	Eventually(reasonOf(ctx, fleet, v1alpha1.ReadyCondition)).Should(Equal(v1alpha1.ReasonReady))
	taint(ctx, second, false)
	Eventually(kubelets(ctx, fleet, all...)).Should(Equal([]string{"v1.37.1", "v1.37.1", "v1.37.1", ""}), "and catches up when it is back")

	By("decisions that become empty")
	editFleet(ctx, fleet, func(fleet *v1alpha1.MachineFleet) { fleet.Spec.RemovalPolicy = v1alpha1.RemovalDelete })
	for _, name := range []string{canary, second, third} {
		taint(ctx, name, true)
	}
	Eventually(decided(ctx, fleet.Spec.PlacementRef.Name)).Should(BeEmpty())
	Eventually(reasonOf(ctx, fleet, v1alpha1.FrozenCondition)).Should(Equal(v1alpha1.ReasonSelectionEmptied))
	Consistently(kubelets(ctx, fleet, all...)).WithTimeout(settled).WithPolling(time.Second).
		Should(Equal([]string{"v1.37.1", "v1.37.1", "v1.37.1", ""}), "nothing is deleted")
	Expect(fleet.Status.Message).To(And(ContainSubstring("spec.placementRef"), ContainSubstring("correct the Placement")))
}
