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
	*testenv.Env
	*Checker
	namespace string
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
	b := &env{Env: agenttest.NewEnv(t)}
	b.namespace = agenttest.Namespace(t, b.Client)
	b.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: b.namespace, Generation: 7}}
	config := clients.Gated(b.Server.Config, func(inner http.RoundTripper) http.RoundTripper {
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
		Target: target, Nodes: b.Client, Host: host, HostNamespace: b.namespace,
		Cluster: func() *v1alpha1.Cluster { return b.cluster }, Freeze: b, Runtime: poll.Runtime{Clock: b.Clock, Log: logr.Discard()},
	})
	b.Expect(err).NotTo(HaveOccurred())
	return b
}

// condition reads, after so much time, and returns a condition.
func (b *env) condition(kind string, after time.Duration) metav1.Condition {
	b.T.Helper()
	b.Clock.Step(after)
	b.Read(b.T.Context())
	for _, condition := range b.Result().Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	b.T.Fatalf("no condition %s in %v", kind, b.Result())
	return metav1.Condition{}
}

func (b *env) budgets(after time.Duration) metav1.Condition {
	b.T.Helper()
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
	b.T.Helper()
	b.Eventually(func() error { return b.Client.Create(b.T.Context(), object) }).WithTimeout(agenttest.Wait).Should(Succeed(), "the namespace's service account must come")
	b.T.Cleanup(func() {
		b.Expect(client.IgnoreNotFound(b.Client.Delete(context.Background(), object, client.GracePeriodSeconds(0)))).To(Succeed())
	})
}

// node makes a Node, of a Machine of the cluster if own.
func (b *env) node(name string, own bool) string {
	b.T.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-" + name}}
	if own {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.NodeClusterNamespaceAnnotation, b.namespace)
	}
	b.create(node)
	return node.Name
}

// pod puts a pod of an app on a Node.
func (b *env) pod(node, name, app string, ready bool, change func(*corev1.Pod)) {
	b.T.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{"app": app}}}
	pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}}
	if change != nil {
		change(pod)
	}
	b.create(pod)
	b.setReady(name, ready)
}

func (b *env) setReady(name string, ready bool) {
	b.T.Helper()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	b.Eventually(func() error { // The cluster's controllers may write to it at the same time.
		pod := &corev1.Pod{}
		b.Expect(b.Client.Get(b.T.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, pod)).To(Succeed())
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		return b.Client.Status().Update(b.T.Context(), pod)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

// budget makes a budget for the pods of an app, and waits until the disruption controller allows so many disruptions.
func (b *env) budget(app string, minAvailable int32, allows int32) {
	b.T.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: app}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	budget.Spec.MinAvailable = ptr.To(intstr.FromInt32(minAvailable))
	b.create(budget)
	b.expectBudget(app, allows)
}

func (b *env) expectBudget(app string, allows int32) {
	b.T.Helper()
	b.Eventually(func(g Gomega) {
		budget := &policyv1.PodDisruptionBudget{}
		g.Expect(b.Client.Get(b.T.Context(), client.ObjectKey{Namespace: b.namespace, Name: app}, budget)).To(Succeed())
		g.Expect(budget.Status.ObservedGeneration).To(Equal(budget.Generation))
		g.Expect(budget.Status.ExpectedPods).To(BeNumerically(">", 0))
		g.Expect(budget.Status.DisruptionsAllowed).To(Equal(allows))
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the disruption controller")
}

// web makes two pods on a Node of a Machine, and their budget.
func (b *env) web(minAvailable, allows int32) {
	b.T.Helper()
	node := b.node("own", true)
	for _, pod := range []string{"web-0", "web-1"} {
		b.pod(node, pod, "web", true, nil)
	}
	b.budget("web", minAvailable, allows)
}
