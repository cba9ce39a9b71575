package fleettest

import (
	"context"
	"fmt"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

// Workload is a Deployment on the Nodes of one pool, under a disruption budget. Its journal is of its pods, and accuses
// what breaks the budget.
type Workload struct {
	*Journal
	member *localfleet.Member
	pool   string
}

// NewWorkload runs a workload on the Nodes of pool and waits until all of it is available.
func (f *Fleet) NewWorkload(ctx context.Context, member *localfleet.Member, pool string, replicas, minAvailable int32) *Workload {
	GinkgoHelper()
	deployment := workloadOf(pool, replicas)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: *deployment.ObjectMeta.DeepCopy()}
	budget.Spec.MinAvailable, budget.Spec.Selector = ptr.To(intstr.FromInt32(minAvailable)), deployment.Spec.Selector
	for _, object := range []client.Object{deployment, budget} {
		Expect(member.Client.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(member.Client.Delete(ctx, object))).To(Succeed()) })
	}
	target, err := member.Cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	w := &Workload{member: member, pool: pool, Journal: keepJournal(ctx, subject{
		kind: "workload's Pod", config: target, scheme: member.Client.Scheme(), list: &corev1.PodList{}, ready: isReady,
		options: []client.ListOption{client.InNamespace("default"), client.MatchingLabels{"app": pool}},
	})}
	Eventually(ctx, w.Available).Should(Equal(int(replicas)), "the workload runs")
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(member.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget)).To(Succeed())
		g.Expect(budget.Status.DisruptionsAllowed).To(Equal(replicas - minAvailable))
	}).Should(Succeed(), "the disruption controller knows the workload")
	w.Hold(Bound{Least: int(minAvailable), Most: math.MaxInt})
	return w
}

// Scale makes the workload another size, and waits for that. From then on the bound is minAvailable, which the
// disruption budget has to allow.
func (w *Workload) Scale(ctx context.Context, replicas, minAvailable int) {
	GinkgoHelper()
	w.Hold(Bound{Most: math.MaxInt})
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: w.pool}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	Expect(w.member.Client.Patch(ctx, deployment, patch)).To(Succeed())
	Eventually(ctx, func() []int { return []int{w.Available(), len(w.Live())} }).Should(HaveEach(replicas), "the workload runs")
	w.Hold(Bound{Least: minAvailable, Most: math.MaxInt})
}

func workloadOf(pool string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": pool}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pool}}
	deployment.Spec.Replicas = ptr.To(replicas)
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec = corev1.PodSpec{
		NodeSelector:                  map[string]string{PoolLabel: pool},
		AutomountServiceAccountToken:  ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers:                    []corev1.Container{{Name: "web", Image: "example.com/web:1"}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: deployment.Spec.Selector,
		}},
	}
	return deployment
}

// On counts the workload's pods on a Node.
func (w *Workload) On(ctx context.Context, g Gomega, node string) int {
	pods := &corev1.PodList{}
	g.Expect(w.member.Client.List(ctx, pods, client.InNamespace("default"), client.MatchingLabels{"app": w.pool})).To(Succeed())
	count := 0
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node {
			count++
		}
	}
	return count
}
