package ocm

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func newName() string { return "c-" + rand.String(8) }

// join creates a Cluster and plays its agent, which says that all is well.
func join(ctx context.Context, name string) *v1alpha1.Cluster {
	GinkgoHelper()
	cluster := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": "test", "app.kubernetes.io/instance": "argo"}},
		Spec:       v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted, Heartbeat: v1alpha1.Heartbeat{PeriodSeconds: 60, GraceSeconds: 600}},
	}
	Expect(api.Create(ctx, cluster)).To(Succeed())
	Eventually(func() error { return api.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{}) }).Should(Succeed())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: v1alpha1.AgentLeaseName}}
	Expect(api.Create(ctx, lease)).To(Succeed())
	report(ctx, name, func(status *v1alpha1.ClusterStatus) {
		status.KubernetesVersion, status.ClusterUID = "v1.37.1", "3f0a"
		status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi")}
		reachable(status, metav1.ConditionTrue)
	})
	renewed := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("agent"), &renewed
	Expect(api.Update(ctx, lease)).To(Succeed())
	return cluster
}

// heard is what of returns once a hub that has started again hears the agent: it renews its Lease each time.
func heard(ctx context.Context, name string, of func() metav1.ConditionStatus) func() metav1.ConditionStatus {
	return func() metav1.ConditionStatus {
		GinkgoHelper()
		lease := &coordinationv1.Lease{}
		Expect(api.Get(ctx, client.ObjectKey{Namespace: name, Name: v1alpha1.AgentLeaseName}, lease)).To(Succeed())
		renewed := metav1.NowMicro()
		lease.Spec.RenewTime = &renewed
		Expect(api.Update(ctx, lease)).To(Succeed())
		return of()
	}
}

// report writes a Cluster's status as its agent does.
func report(ctx context.Context, name string, change func(*v1alpha1.ClusterStatus)) {
	GinkgoHelper()
	cluster := &v1alpha1.Cluster{}
	Expect(api.Get(ctx, client.ObjectKey{Name: name}, cluster)).To(Succeed())
	Eventually(func() error {
		Expect(api.Get(ctx, client.ObjectKey{Name: name}, cluster)).To(Succeed())
		change(&cluster.Status)
		return api.Status().Update(ctx, cluster)
	}).Should(Succeed())
}

func reachable(status *v1alpha1.ClusterStatus, known metav1.ConditionStatus) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: v1alpha1.ClusterTargetReachableCondition, Status: known, Reason: v1alpha1.ReasonReachable})
}

// managed reads a ManagedCluster; one that is not there, or of a kind that is not, is nil.
func managed(ctx context.Context, name string) *clusterv1.ManagedCluster {
	GinkgoHelper()
	object := &clusterv1.ManagedCluster{}
	err := api.Get(ctx, client.ObjectKey{Name: name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return object
}

// available is what a ManagedCluster says of its state.
func available(ctx context.Context, name string) func() metav1.ConditionStatus {
	return func() metav1.ConditionStatus {
		GinkgoHelper()
		object := managed(ctx, name)
		if object == nil {
			return ""
		}
		condition := meta.FindStatusCondition(object.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
		if condition == nil {
			return ""
		}
		return condition.Status
	}
}

func taintKeys(ctx context.Context, name string) func() []string {
	return func() []string {
		GinkgoHelper()
		keys := []string{}
		for _, taint := range managed(ctx, name).Spec.Taints {
			keys = append(keys, taint.Key)
		}
		return keys
	}
}

// accepted creates a ManagedCluster that Open Cluster Management has accepted.
func accepted(ctx context.Context, name string, labels map[string]string) *clusterv1.ManagedCluster {
	GinkgoHelper()
	object := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}
	Expect(api.Create(ctx, object)).To(Succeed())
	object.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue, Reason: "HubClusterAdminAccepted", LastTransitionTime: metav1.Now(),
	}}
	Expect(api.Status().Update(ctx, object)).To(Succeed())
	return object
}

func clusterOf(ctx context.Context, name string) func() (*v1alpha1.Cluster, error) {
	return func() (*v1alpha1.Cluster, error) {
		cluster := &v1alpha1.Cluster{}
		err := api.Get(ctx, client.ObjectKey{Name: name}, cluster)
		return cluster, err
	}
}

// reasons are those of the events about an object.
func reasons(ctx context.Context, name string) func() []string {
	return func() []string {
		GinkgoHelper()
		list := &eventsv1.EventList{}
		Expect(api.List(ctx, list)).To(Succeed())
		var found []string
		for _, event := range list.Items {
			if event.Regarding.Name == name {
				found = append(found, event.Reason)
			}
		}
		return found
	}
}

// quiet is long enough for a watch that fails to be tried again several times.
const quiet = 5 * time.Second

// nameSpace is a namespace as Open Cluster Management makes it.
func nameSpace(cluster string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster, Labels: map[string]string{clusterv1.ClusterNameLabelKey: cluster}}}
}
