package ocm

import (
	"context"
	"slices"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/process"
)

const (
	// suspend and resume are what a stopped and a running agent get.
	suspend, resume = syscall.SIGSTOP, syscall.SIGCONT
	// placements is the namespace of the Placements.
	placements = "default"
	// zone is the label by which they choose.
	zone = "zone"
	// long is a toleration that does not end while a spec runs.
	long = 24 * 60 * 60
)

func agentUser(cluster string) string  { return v1alpha1.AgentUserPrefix + cluster }
func agentGroup(cluster string) string { return v1alpha1.AgentGroupPrefix + cluster }

// joinWithAgent creates a Cluster in a zone, with a real agent whose silence is noticed soon.
func joinWithAgent(ctx context.Context, name, inZone string) *process.Process {
	GinkgoHelper()
	Expect(api.Create(ctx, &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zone: inZone}},
		Spec: v1alpha1.ClusterSpec{
			Acceptance: v1alpha1.AcceptanceAccepted, Heartbeat: v1alpha1.Heartbeat{PeriodSeconds: 1, GraceSeconds: 15},
		},
	})).To(Succeed())
	agent := startAgent(ctx, name)
	Eventually(available(ctx, name)).Should(Equal(metav1.ConditionTrue))
	Eventually(taintKeys(ctx, name)).Should(BeEmpty())
	return agent
}

// bindDefaultSet lets the Placements choose from the clusterset default.
func bindDefaultSet(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() error {
		return api.Get(ctx, client.ObjectKey{Name: defaultSet}, &clusterv1beta2.ManagedClusterSet{})
	}).Should(Succeed(), "registration makes the set")
	binding := &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: placements, Name: defaultSet},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: defaultSet},
	}
	Expect(client.IgnoreAlreadyExists(api.Create(ctx, binding))).To(Succeed())
}

// place creates a Placement for a zone, which tolerates an unreachable cluster for a time, if seconds are given.
func place(ctx context.Context, inZone string, seconds ...int64) string {
	GinkgoHelper()
	placement := &clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: placements, Name: newName()},
		Spec: clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{
			RequiredClusterSelector: clusterv1beta1.ClusterSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{zone: inZone}},
			},
		}}},
	}
	for _, limit := range seconds {
		placement.Spec.Tolerations = append(placement.Spec.Tolerations, clusterv1beta1.Toleration{
			Key: clusterv1.ManagedClusterTaintUnreachable, Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: &limit,
		})
	}
	Expect(api.Create(ctx, placement)).To(Succeed())
	return placement.Name
}

// decided are the clusters that a Placement has chosen.
func decided(ctx context.Context, placement string) func() []string {
	return func() []string {
		GinkgoHelper()
		list := &clusterv1beta1.PlacementDecisionList{}
		Expect(api.List(ctx, list, client.InNamespace(placements), client.MatchingLabels{clusterv1beta1.PlacementLabel: placement})).To(Succeed())
		names := []string{}
		for i := range list.Items {
			for _, decision := range list.Items[i].Status.Decisions {
				names = append(names, decision.ClusterName)
			}
		}
		slices.Sort(names)
		return names
	}
}

// expectUnreachable waits until a mirror shows that its agent is silent.
func expectUnreachable(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(available(ctx, name)).Should(Equal(metav1.ConditionUnknown))
	Eventually(taintKeys(ctx, name)).Should(ConsistOf(clusterv1.ManagedClusterTaintUnreachable))
}

// placeWithoutWebhooks has Placements choose mirrors, of which one's agent is stopped for a while.
func placeWithoutWebhooks(ctx context.Context) {
	GinkgoHelper()
	bindDefaultSet(ctx)
	silent, other, elsewhere := newName(), newName(), newName()
	agent := joinWithAgent(ctx, silent, "west")
	joinWithAgent(ctx, other, "west")
	joinWithAgent(ctx, elsewhere, "east")
	for _, name := range []string{silent, other, elsewhere} {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+clusterv1beta2.ClusterSetLabel+`":"`+defaultSet+`"}}}`))
		Expect(api.Patch(ctx, managed(ctx, name), patch)).To(Succeed())
	}
	both := []string{silent, other}
	slices.Sort(both)
	west, east, tolerant := place(ctx, "west"), place(ctx, "east"), place(ctx, "west", long)
	Eventually(decided(ctx, west)).Should(Equal(both))
	Eventually(decided(ctx, tolerant)).Should(Equal(both))
	Eventually(decided(ctx, east)).Should(Equal([]string{elsewhere}))

	By("stopping an agent")
	Expect(agent.Signal(suspend)).To(Succeed())
	expectUnreachable(ctx, silent)
	Eventually(decided(ctx, west)).Should(Equal([]string{other}))
	Eventually(decided(ctx, tolerant)).Should(Equal([]string{other}), "without a webhook no taint has a time from which seconds count")
	expectNoFight(ctx, silent)

	By("letting it continue")
	Expect(agent.Signal(resume)).To(Succeed())
	Eventually(available(ctx, silent)).Should(Equal(metav1.ConditionTrue))
	Eventually(decided(ctx, west)).Should(Equal(both))
	Eventually(decided(ctx, tolerant)).Should(Equal(both))
	Expect(decided(ctx, east)()).To(Equal([]string{elsewhere}))
}

// placeWithWebhooks has Placements tolerate a stopped agent for a time.
func placeWithWebhooks(ctx context.Context) {
	GinkgoHelper()
	bindDefaultSet(ctx)
	name := newName()
	agent := joinWithAgent(ctx, name, name)
	strict, short, tolerant := place(ctx, name), place(ctx, name, 1), place(ctx, name, long)
	for _, placement := range []string{strict, short, tolerant} {
		Eventually(decided(ctx, placement)).Should(Equal([]string{name}), "the mirror is in the set by itself")
	}
	Expect(agent.Signal(suspend)).To(Succeed())
	expectUnreachable(ctx, name)
	Expect(managed(ctx, name).Spec.Taints).To(HaveEach(HaveField("TimeAdded.IsZero()", BeFalse())), "the webhook fills it in")
	Eventually(decided(ctx, strict)).Should(BeEmpty())
	Eventually(decided(ctx, short)).Should(BeEmpty())
	Expect(decided(ctx, tolerant)()).To(Equal([]string{name}))
	expectNoFight(ctx, name)
	Expect(decided(ctx, tolerant)()).To(Equal([]string{name}))

	Expect(agent.Signal(resume)).To(Succeed())
	Eventually(taintKeys(ctx, name)).Should(BeEmpty())
	for _, placement := range []string{strict, short, tolerant} {
		Eventually(decided(ctx, placement)).Should(Equal([]string{name}))
	}
}
