package ocm

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterprofilev1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const timeout = 4 * fleettest.Patience

// The kinds come and go in this order, in one process of a hub that starts again by itself.
var _ = Describe("A hub on which others install their kinds", Ordered, func() {
	var name string
	BeforeAll(func() { name = newName() })

	expectIdle := func() {
		GinkgoHelper()
		// What was under way when the kind went may take a while to end. A hub that keeps asking or logging is never quiet.
		requests, lines := -1, -1
		Eventually(func() string {
			report := fmt.Sprintf("requests: %d and %d before, lines logged: %d and %d before", len(seen.foreignRequests()), requests, seen.logged(), lines)
			same := requests == len(seen.foreignRequests()) && lines == seen.logged()
			requests, lines = len(seen.foreignRequests()), seen.logged()
			if same {
				return ""
			}
			return report
		}).WithPolling(quiet).Should(BeEmpty(), "it has been quiet for "+quiet.String())
	}

	AfterEach(func() { Expect(seen.complaints()).To(BeEmpty()) })

	It("should do nothing for kinds that are not installed", func(ctx SpecContext) {
		join(ctx, name)
		Expect(seen.foreignRequests()).To(BeEmpty())
		expectIdle()
	}, SpecTimeout(timeout))

	It("should mirror its Clusters as soon as the kinds are there", func(ctx SpecContext) {
		Expect(testenv.ManagedClusters.Install(ctx, environment.Client)).To(Succeed())
		Expect(testenv.ClusterProfiles.Install(ctx, environment.Client)).To(Succeed())
		Eventually(heard(ctx, name, available(ctx, name))).Should(Equal(metav1.ConditionTrue))
		mirror := managed(ctx, name)
		Expect(mirror.Labels).To(Equal(map[string]string{"env": "test", v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub}))
		Expect(mirror.Status.Version.Kubernetes).To(Equal("v1.37.1"))
		Expect(mirror.Status.Capacity).To(And(HaveKey(clusterv1.ResourceCPU), HaveKey(clusterv1.ResourceMemory)))
		Expect(mirror.Spec.HubAcceptsClient).To(BeFalse())
		Eventually(func() (*clusterprofilev1alpha1.ClusterProfile, error) {
			profile := &clusterprofilev1alpha1.ClusterProfile{}
			return profile, api.Get(ctx, client.ObjectKey{Namespace: "hollowfleet-system", Name: name}, profile)
		}).Should(HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", clusterprofilev1alpha1.ClusterConditionControlPlaneHealthy), HaveField("Status", metav1.ConditionTrue)))))
		expectIdle()
	}, SpecTimeout(timeout))

	It("should say in Open Cluster Management's terms that a cluster is down, and that its state is not known", func(ctx SpecContext) {
		Eventually(taintKeys(ctx, name)).Should(BeEmpty())
		report(ctx, name, func(status *v1alpha1.ClusterStatus) { reachable(status, metav1.ConditionFalse) })
		Eventually(heard(ctx, name, available(ctx, name))).Should(Equal(metav1.ConditionFalse))
		Eventually(taintKeys(ctx, name)).Should(ConsistOf(clusterv1.ManagedClusterTaintUnavailable))
		report(ctx, name, func(status *v1alpha1.ClusterStatus) { reachable(status, metav1.ConditionUnknown) })
		Eventually(heard(ctx, name, available(ctx, name))).Should(Equal(metav1.ConditionUnknown))
		Eventually(taintKeys(ctx, name)).Should(ConsistOf(clusterv1.ManagedClusterTaintUnreachable))
		report(ctx, name, func(status *v1alpha1.ClusterStatus) { reachable(status, metav1.ConditionTrue) })
		Eventually(taintKeys(ctx, name)).Should(BeEmpty())
	}, SpecTimeout(timeout))

	It("should leave the ManagedCluster of another client alone", func(ctx SpecContext) {
		foreign := accepted(ctx, newName(), nil)
		join(ctx, foreign.Name)
		Eventually(clusterOf(ctx, foreign.Name)).Should(HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", v1alpha1.ClusterMirroredCondition), HaveField("Reason", v1alpha1.ReasonManagedClusterConflict)))))
		Eventually(reasons(ctx, foreign.Name)).Should(ContainElement(v1alpha1.ReasonManagedClusterConflict))
		Expect(api.Delete(ctx, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: foreign.Name}})).To(Succeed())
		Eventually(func() error { _, err := clusterOf(ctx, foreign.Name)(); return err }).ShouldNot(Succeed())
		Consistently(func() string { return managed(ctx, foreign.Name).ResourceVersion }).WithTimeout(2 * time.Second).Should(Equal(foreign.ResourceVersion))
	}, SpecTimeout(timeout))

	It("should take on the ManagedCluster that a user asks for, and keep it when that goes", func(ctx SpecContext) {
		origin := accepted(ctx, newName(), map[string]string{v1alpha1.ImportLabel: "true", "env": "prod"})
		Eventually(clusterOf(ctx, origin.Name)).Should(And(
			HaveField("Spec.Acceptance", v1alpha1.AcceptancePending), HaveField("Labels", HaveKeyWithValue("env", "prod"))))
		Eventually(reasons(ctx, origin.Name)).Should(ContainElement("Imported"))
		Expect(managed(ctx, origin.Name).ResourceVersion).To(Equal(origin.ResourceVersion))
		Expect(api.Delete(ctx, origin)).To(Succeed())
		Eventually(reasons(ctx, origin.Name)).Should(ContainElement("ImportOriginGone"))
		cluster, err := clusterOf(ctx, origin.Name)()
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.DeletionTimestamp).To(BeNil())
		Expect(managed(ctx, origin.Name)).To(BeNil(), "the Cluster is mirrored back")
	}, SpecTimeout(timeout))

	It("should use the namespace that Open Cluster Management made once a user hands it over", func(ctx SpecContext) {
		origin := accepted(ctx, newName(), map[string]string{v1alpha1.ImportLabel: "true"})
		namespace := nameSpace(origin.Name)
		Expect(api.Create(ctx, namespace)).To(Succeed())
		Eventually(clusterOf(ctx, origin.Name)).Should(HaveField("Spec.Acceptance", v1alpha1.AcceptancePending))
		cluster, err := clusterOf(ctx, origin.Name)()
		Expect(err).NotTo(HaveOccurred())
		before := cluster.DeepCopy()
		cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
		Expect(api.Patch(ctx, cluster, client.MergeFrom(before))).To(Succeed())
		condition := func(reason string) types.GomegaMatcher {
			return HaveField("Status.Conditions", ContainElement(And(HaveField("Type", v1alpha1.ClusterAcceptedCondition), HaveField("Reason", reason))))
		}
		Eventually(clusterOf(ctx, origin.Name)).Should(condition(v1alpha1.ReasonNamespaceConflict))
		handed := namespace.DeepCopy()
		metav1.SetMetaDataLabel(&handed.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub)
		metav1.SetMetaDataLabel(&handed.ObjectMeta, v1alpha1.ClusterNameLabel, origin.Name)
		Expect(api.Patch(ctx, handed, client.MergeFrom(namespace))).To(Succeed())
		Eventually(clusterOf(ctx, origin.Name)).Should(condition(v1alpha1.ReasonAccepted))
	}, SpecTimeout(timeout))

	It("should remove a mirror with its Cluster", func(ctx SpecContext) {
		gone := join(ctx, newName())
		Eventually(available(ctx, gone.Name)).Should(Equal(metav1.ConditionTrue))
		Expect(api.Delete(ctx, gone)).To(Succeed())
		Eventually(managed).WithArguments(ctx, gone.Name).Should(BeNil())
	}, SpecTimeout(timeout))

	It("should go idle when the kinds are removed, and mirror again when they are back", func(ctx SpecContext) {
		conflict := accepted(ctx, newName(), nil)
		join(ctx, conflict.Name)
		mirrored := func() *metav1.Condition {
			cluster, err := clusterOf(ctx, conflict.Name)()
			Expect(err).NotTo(HaveOccurred())
			return meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterMirroredCondition)
		}
		Eventually(mirrored).ShouldNot(BeNil())
		for range 2 {
			Expect(testenv.ManagedClusters.Uninstall(ctx, environment.Client)).To(Succeed())
			Expect(testenv.ClusterProfiles.Uninstall(ctx, environment.Client)).To(Succeed())
			expectIdle()
			Eventually(mirrored).Should(BeNil(), "no controller would keep it true")
			Expect(testenv.ManagedClusters.Install(ctx, environment.Client)).To(Succeed())
			Expect(testenv.ClusterProfiles.Install(ctx, environment.Client)).To(Succeed())
			Eventually(heard(ctx, name, available(ctx, name))).Should(Equal(metav1.ConditionTrue))
			Eventually(heard(ctx, conflict.Name, available(ctx, conflict.Name))).Should(Equal(metav1.ConditionTrue), "no other object is there now")
		}
	}, SpecTimeout(timeout))

	Describe("beside Open Cluster Management's own programs", Ordered, func() {
		BeforeAll(func(ctx SpecContext) {
			withPrograms(ctx)
			Expect(config.Apply(ctx, environment.Client, config.RBAC, "rbac/agent-workload")).To(Succeed())
			startController("registration")
			startController("placement")
		}, NodeTimeout(timeout))

		It("should agree with registration's controllers", func(ctx SpecContext) {
			agreeWithRegistration(ctx)
		}, SpecTimeout(timeout))

		// Edge case: Tolerations with seconds were misdescribed. Also: "should have Placements tolerate a stopped agent for tolerationSeconds".
		It("should have Placements choose mirrors by their labels, and leave one out while its agent is stopped", func(ctx SpecContext) {
			placeWithoutWebhooks(ctx)
		}, SpecTimeout(timeout))

		It("should have a Placement choose the clusters of a MachineFleet, and leave all as it is when it chooses none", func(ctx SpecContext) {
			rollOutByPlacement(ctx)
		}, SpecTimeout(timeout))

		It("should have a Placement choose the clusters of a LoadTest", func(ctx SpecContext) {
			Expect(config.Apply(ctx, environment.Client, config.RBAC, "rbac/agent-load-tests")).To(Succeed())
			loadByPlacement(ctx)
		}, SpecTimeout(timeout))

		Describe("with its webhooks", Ordered, func() {
			// Mirrors of these Clusters were made before the webhooks.
			var changed, refused string
			BeforeAll(func(ctx SpecContext) {
				changed, refused = newName(), newName()
				for _, before := range []string{changed, refused} {
					join(ctx, before)
					Eventually(available(ctx, before)).Should(Equal(metav1.ConditionTrue))
				}
				startWebhooks(ctx)
			}, NodeTimeout(timeout))

			It("should create and change mirrors, which are put into the default ManagedClusterSet", func(ctx SpecContext) {
				mirrorThroughWebhooks(ctx, changed)
			}, SpecTimeout(timeout))

			It("should say what the webhooks refuse and what to do, and recover", func(ctx SpecContext) {
				refuseWithoutRight(ctx, refused)
			}, SpecTimeout(timeout))

			It("should have Placements tolerate a stopped agent for tolerationSeconds", func(ctx SpecContext) {
				placeWithWebhooks(ctx)
			}, SpecTimeout(timeout))
		})
	})
})
