package checks

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// env is a Checker of a real cluster, in a namespace of its own for workload, host and Machines.
type env struct {
	*WithT
	*Checker
	t         *testing.T
	admin     client.Client
	namespace string
	clock     *clocktesting.FakeClock
	cluster   *v1alpha1.Cluster

	mu sync.Mutex
	// requests are those of the Checker since they were asked for last; refuse lets them fail.
	requests []string
	refuse   error
	frozen   error
	// ownBudgets: the budgets of other tests are not listed.
	ownBudgets bool
}

func (b *env) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.frozen
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func newEnv(t *testing.T) *env {
	t.Helper()
	environment := agenttest.Environment(t)
	b := &env{t: t, WithT: NewWithT(t), admin: environment.Client, clock: clocktesting.NewFakeClock(time.Now())}
	b.namespace = agenttest.Namespace(t, b.admin)
	b.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: b.namespace, Generation: 7}}
	config := clients.Gated(environment.Config, func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			b.mu.Lock()
			b.requests = append(b.requests, request.Method+" "+request.URL.Path)
			refuse := b.refuse
			if b.ownBudgets {
				request.URL.Path = strings.Replace(request.URL.Path, "/v1/poddisruptionbudgets", "/v1/namespaces/"+b.namespace+"/poddisruptionbudgets", 1)
			}
			b.mu.Unlock()
			if refuse != nil {
				return nil, refuse
			}
			return inner.RoundTrip(request)
		})
	})
	target, err := kubernetes.NewForConfig(config)
	b.Expect(err).NotTo(HaveOccurred())
	scheme, err := clients.Scheme()
	b.Expect(err).NotTo(HaveOccurred())
	host, err := client.New(config, client.Options{Scheme: scheme, Mapper: clients.Mapper()})
	b.Expect(err).NotTo(HaveOccurred())
	b.Checker, err = New(Deps{
		Target: target, Nodes: b.admin, Host: host, HostNamespace: b.namespace,
		Cluster: func() *v1alpha1.Cluster { return b.cluster }, Freeze: b, Runtime: poll.Runtime{Clock: b.clock, Log: logr.Discard()},
	})
	b.Expect(err).NotTo(HaveOccurred())
	return b
}

// condition reads, after so much time, and returns a condition.
func (b *env) condition(kind string, after time.Duration) metav1.Condition {
	b.t.Helper()
	b.clock.Step(after)
	b.Read(b.t.Context())
	for _, condition := range b.Result().Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	b.t.Fatalf("no condition %s in %v", kind, b.Result())
	return metav1.Condition{}
}

func (b *env) budgets(after time.Duration) metav1.Condition {
	b.t.Helper()
	return b.condition(v1alpha1.ClusterDisruptionAllowedCondition, after)
}

// asked returns the requests since the last call.
func (b *env) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests := b.requests
	b.requests = nil
	return requests
}

func (b *env) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = err
}

func (b *env) create(object client.Object) {
	b.t.Helper()
	b.Eventually(func() error { return b.admin.Create(b.t.Context(), object) }).WithTimeout(agenttest.Wait).Should(Succeed(), "the namespace's service account must come")
	b.t.Cleanup(func() {
		b.Expect(client.IgnoreNotFound(b.admin.Delete(context.Background(), object, client.GracePeriodSeconds(0)))).To(Succeed())
	})
}

// node makes a Node, of a Machine of the cluster if own.
func (b *env) node(name string, own bool) string {
	b.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-" + name}}
	if own {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.NodeClusterNamespaceAnnotation, b.namespace)
	}
	b.create(node)
	return node.Name
}

// pod puts a pod of an app on a Node.
func (b *env) pod(node, name, app string, ready bool, change func(*corev1.Pod)) {
	b.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{"app": app}}}
	pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}}
	if change != nil {
		change(pod)
	}
	b.create(pod)
	b.setReady(name, ready)
}

func (b *env) setReady(name string, ready bool) {
	b.t.Helper()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	b.Eventually(func() error { // The cluster's controllers may write to it at the same time.
		pod := &corev1.Pod{}
		b.Expect(b.admin.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, pod)).To(Succeed())
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		return b.admin.Status().Update(b.t.Context(), pod)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

// budget makes a budget for the pods of an app, and waits until the disruption controller allows so many disruptions.
func (b *env) budget(app string, minAvailable int32, allows int32) {
	b.t.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: app}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	budget.Spec.MinAvailable = ptr.To(intstr.FromInt32(minAvailable))
	b.create(budget)
	b.expectBudget(app, allows)
}

func (b *env) expectBudget(app string, allows int32) {
	b.t.Helper()
	b.Eventually(func(g Gomega) {
		budget := &policyv1.PodDisruptionBudget{}
		g.Expect(b.admin.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: app}, budget)).To(Succeed())
		g.Expect(budget.Status.ObservedGeneration).To(Equal(budget.Generation))
		g.Expect(budget.Status.ExpectedPods).To(BeNumerically(">", 0))
		g.Expect(budget.Status.DisruptionsAllowed).To(Equal(allows))
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the disruption controller")
}

// web makes two pods on a Node of a Machine, and their budget.
func (b *env) web(minAvailable, allows int32) {
	b.t.Helper()
	node := b.node("own", true)
	for _, pod := range []string{"web-0", "web-1"} {
		b.pod(node, pod, "web", true, nil)
	}
	b.budget("web", minAvailable, allows)
}
