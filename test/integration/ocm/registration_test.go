package ocm

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// cleanupFinalizer is what the registration controller puts on every ManagedCluster that it has seen.
const cleanupFinalizer = "cluster.open-cluster-management.io/resource-cleanup"

// expectNoFight looks at a ManagedCluster for long enough to see two controllers undo each other's writes.
func expectNoFight(ctx context.Context, name string) {
	GinkgoHelper()
	version := func() string { return managed(ctx, name).ResourceVersion }
	var last string
	Eventually(func() bool {
		same := last == version()
		last = version()
		return same
	}).WithPolling(time.Second).Should(BeTrue())
	Consistently(version).WithTimeout(quiet).Should(Equal(last))
}

func agreeWithRegistration(ctx context.Context) {
	GinkgoHelper()
	name := newName()
	cluster := join(ctx, name)
	Eventually(available(ctx, name)).ShouldNot(BeEmpty(), "the mirror is there")
	Eventually(func() []string { return managed(ctx, name).Finalizers }).Should(ContainElement(cleanupFinalizer))

	By("mirroring what happens to the cluster")
	for state, taint := range map[metav1.ConditionStatus][]string{
		metav1.ConditionFalse: {clusterv1.ManagedClusterTaintUnavailable}, metav1.ConditionUnknown: {clusterv1.ManagedClusterTaintUnreachable},
	} {
		report(ctx, name, func(status *v1alpha1.ClusterStatus) { reachable(status, state) })
		Eventually(available(ctx, name)).Should(Equal(state))
		Eventually(taintKeys(ctx, name)).Should(Equal(taint))
		expectNoFight(ctx, name)
		report(ctx, name, func(status *v1alpha1.ClusterStatus) { reachable(status, metav1.ConditionTrue) })
		Eventually(taintKeys(ctx, name)).Should(BeEmpty())
		expectNoFight(ctx, name)
	}
	namespace := &corev1.Namespace{}
	Expect(api.Get(ctx, client.ObjectKey{Name: name}, namespace)).To(Succeed())
	Expect(namespace.Labels).NotTo(HaveKey(clusterv1.ClusterNameLabelKey))
	lease := client.ObjectKey{Namespace: name, Name: "managed-cluster-lease"}
	Expect(apierrors.IsNotFound(api.Get(ctx, lease, &coordinationv1.Lease{}))).To(BeTrue(), "it waits for an agent that does not exist")

	By("removing the mirror with its cluster, namespace and all else staying")
	Expect(api.Delete(ctx, cluster)).To(Succeed())
	Eventually(managed).WithArguments(ctx, name).Should(BeNil())
	Expect(api.Get(ctx, client.ObjectKey{Name: name}, namespace)).To(Succeed())
	Expect(namespace.DeletionTimestamp).To(BeNil())

	By("handing over a mirror that is accepted")
	name = newName()
	join(ctx, name)
	Eventually(available(ctx, name)).Should(Equal(metav1.ConditionTrue))
	Eventually(func() error {
		taken := managed(ctx, name)
		taken.Spec.HubAcceptsClient = true
		return api.Update(ctx, taken)
	}).Should(Succeed())
	Eventually(func() bool {
		return meta.IsStatusConditionTrue(managed(ctx, name).Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	}).Should(BeTrue())
	Eventually(func() map[string]string { return managed(ctx, name).Labels }).ShouldNot(HaveKey(v1alpha1.ManagedByLabel))
	expectNoFight(ctx, name)

	By("taking on a cluster that was registered and accepted there")
	name = newName()
	Expect(api.Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.ImportLabel: "true"}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	})).To(Succeed())
	Eventually(clusterOf(ctx, name)).Should(HaveField("Spec.Acceptance", v1alpha1.AcceptancePending))
	expectNoFight(ctx, name)
}
