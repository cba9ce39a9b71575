package ocm

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// loadByPlacement lets the placement controller choose the clusters of a LoadTest, which makes ConfigMaps in them.
func loadByPlacement(ctx context.Context) {
	GinkgoHelper()
	bindDefaultSet(ctx)
	inZone := newName()
	first, second, elsewhere := newName(), newName(), newName()
	joinWithAgent(ctx, first, inZone)
	joinWithAgent(ctx, second, inZone)
	joinWithAgent(ctx, elsewhere, "elsewhere")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+clusterv1beta2.ClusterSetLabel+`":"`+defaultSet+`"}}}`))
	for _, name := range []string{first, second, elsewhere} {
		Expect(api.Patch(ctx, managed(ctx, name), patch)).To(Succeed())
	}
	placement := place(ctx, inZone)
	Eventually(decided(ctx, placement)).Should(HaveLen(2))

	test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: newName()}, Spec: v1alpha1.LoadTestSpec{
		PlacementRef: &v1alpha1.PlacementReference{Namespace: placements, Name: placement},
		Load: &v1alpha1.Load{
			Templates: []v1alpha1.LoadTemplate{{Name: "thing", Object: "apiVersion: v1\nkind: ConfigMap\n"}},
			Steps: []v1alpha1.LoadStep{{Name: "create", Phases: []v1alpha1.LoadPhase{{
				Action: v1alpha1.LoadCreate, Template: "thing", Replicas: 5, Tuning: v1alpha1.LoadTuning{QPS: 10},
			}}}},
		},
	}}
	Expect(api.Create(ctx, test)).To(Succeed())
	Eventually(func() v1alpha1.LoadTestStatus {
		Expect(api.Get(ctx, client.ObjectKeyFromObject(test), test)).To(Succeed())
		return test.Status
	}).WithTimeout(timeout).Should(HaveField("Phase", BeElementOf(v1alpha1.LoadTestPhaseCompleted, v1alpha1.LoadTestPhaseFailed)))
	Expect(test.Status).To(And(
		HaveField("Phase", v1alpha1.LoadTestPhaseCompleted), HaveField("Completed", BeEquivalentTo(2)), HaveField("Progress.Requests", BeEquivalentTo(10)),
	), "%s %v", test.Status.Message, test.Status.Failures)
	runs := &v1alpha1.LoadTestRunList{}
	Expect(api.List(ctx, runs, client.MatchingLabels{v1alpha1.LoadTestNameLabel: test.Name})).To(Succeed())
	var loaded []string
	for i := range runs.Items {
		loaded = append(loaded, runs.Items[i].Namespace)
	}
	Expect(loaded).To(ConsistOf(first, second))
	Expect(api.Delete(ctx, test)).To(Succeed())
}
