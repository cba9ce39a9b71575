package lifecycle

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// workload is a Deployment on the Nodes of one pool, under a disruption budget.
type workload struct {
	member *localfleet.Member
	name   string

	mu sync.Mutex
	// available are the pods that count for the budget, fewest how few they ever were since mark.
	available map[types.UID]bool
	fewest    int
}

// newWorkload runs a workload on the Nodes of pool and waits until all of it is available.
func newWorkload(ctx context.Context, member *localfleet.Member, pool string, replicas, minAvailable int32) *workload {
	GinkgoHelper()
	labels := map[string]string{"app": pool}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pool}}
	deployment.Spec.Replicas = ptr.To(replicas)
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec = corev1.PodSpec{
		NodeSelector:                  map[string]string{fleettest.PoolLabel: pool},
		AutomountServiceAccountToken:  ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers:                    []corev1.Container{{Name: "web", Image: "example.com/web:1"}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: deployment.Spec.Selector,
		}},
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: deployment.ObjectMeta}
	budget.Spec.MinAvailable, budget.Spec.Selector = ptr.To(intstr.FromInt32(minAvailable)), deployment.Spec.Selector
	for _, object := range []client.Object{deployment, budget} {
		Expect(member.Client.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(member.Client.Delete(ctx, object))).To(Succeed()) })
	}
	w := &workload{member: member, name: pool, available: map[types.UID]bool{}}
	w.watch(ctx)
	Eventually(ctx, w.now).Should(Equal(int(replicas)), "the workload runs")
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(member.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget)).To(Succeed())
		g.Expect(budget.Status.DisruptionsAllowed).To(Equal(replicas - minAvailable))
	}).Should(Succeed(), "the disruption controller knows the workload")
	return w
}

// watch counts available pods until the spec ends, at each change of one.
func (w *workload) watch(ctx context.Context) {
	GinkgoHelper()
	changes, err := w.member.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace("default"), client.MatchingLabels{"app": w.name})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(changes.Stop)
	go func() {
		for change := range changes.ResultChan() {
			if pod, ok := change.Object.(*corev1.Pod); ok {
				w.seen(pod, change.Type == watch.Deleted)
			}
		}
	}()
}

func (w *workload) seen(pod *corev1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone || pod.DeletionTimestamp != nil || !ready(pod) {
		delete(w.available, pod.UID)
	} else {
		w.available[pod.UID] = true
	}
	w.fewest = min(w.fewest, len(w.available))
}

func (w *workload) now() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.available)
}

// mark begins to remember how few pods are available.
func (w *workload) mark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fewest = len(w.available)
}

func (w *workload) leastAvailable() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fewest
}

// on counts the workload's pods on a Node.
func (w *workload) on(ctx context.Context, g Gomega, node string) int {
	pods := &corev1.PodList{}
	g.Expect(w.member.Client.List(ctx, pods, client.InNamespace("default"), client.MatchingLabels{"app": w.name})).To(Succeed())
	count := 0
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node {
			count++
		}
	}
	return count
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
