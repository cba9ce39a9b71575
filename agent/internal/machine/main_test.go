package machine

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	machineevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/fake"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// env is a controller of a namespace of its own. The test calls reconcile by hand and turns the clock.
type env struct {
	*testenv.Env
	namespace  string
	driver     *fake.Driver
	frozen     *freezer
	requests   *requestLog
	controller *Controller
	// frozenFor is how much of every time was frozen, if there is no downtime that knows it.
	frozenFor time.Duration
	downtime  freeze.Downtime
	// pace is what the controller is told after a thaw.
	pace pace
	// serverVersion is that of the target's API server; woken are the Machines that the controller asked to look at.
	serverVersion string
	woken         []string
	// evicting is called before each eviction is sent.
	evicting func()
	// deleting is called before each deletion is sent.
	deleting func()
	// listing is called before each list of a drain, which fails with its error.
	listing func() error
	// refresh is what reading the hub's Cluster does.
	refresh func() error
	// tracers, if not nil, makes spans from the next start on.
	tracers trace.TracerProvider

	// cachedNodes is what the agent's cache holds of Nodes while a test holds the cache back; nil is none.
	cachedNodes map[string]*corev1.Node

	// faults of the agent's clients, by "verb Kind", used up one by one; failure is their error, if not one of the test.
	mu      sync.Mutex
	faults  map[string]int
	failure error
	// conflicts counts writes that met another writer.
	conflicts int
	// repeated counts reconciliations that were made again for a conflict.
	repeated int
	// hubWrites are the agent's successful writes to Machines, as "verb" or "verb/status".
	hubWrites []string
}

type freezer struct{ frozen bool }

func (f *freezer) Check() error {
	if f.frozen {
		return &freeze.Error{Reason: v1alpha1.ReasonTargetUnreachable, Message: "a test"}
	}
	return nil
}

// pace lets every Machine wait as long as the test says.
type pace struct {
	wait, waited time.Duration
	asked        int
	// made and forgotten are what it was told of.
	made, forgotten []types.UID
}

func (p *pace) Take(types.UID) (wait, waited time.Duration) {
	p.asked++
	return p.wait, p.waited
}

func (p *pace) Created(machine types.UID) { p.made = append(p.made, machine) }

func (p *pace) Forget(machine types.UID) { p.forgotten = append(p.forgotten, machine) }

// requestLog notes for which nodes certificate requests were removed.
type requestLog struct{ removed, nodes []string }

func (r *requestLog) Nodes(context.Context) ([]string, error) { return r.nodes, nil }

func (r *requestLog) Remove(_ context.Context, node string) error {
	r.removed = append(r.removed, node)
	return nil
}

func newEnv(t *testing.T) *env {
	t.Helper()
	b := &env{Env: agenttest.NewEnv(t), frozen: &freezer{}, requests: &requestLog{}, faults: map[string]int{}, serverVersion: "v1.37.1"}
	b.namespace = agenttest.Namespace(t, b.Client)
	b.driver = fake.New(b.namespace)
	b.start()
	return b
}

// start makes a controller as a freshly started agent would: it remembers nothing.
func (b *env) start() {
	gate := freeze.NewGate(b.frozen, freeze.NewMetrics(prometheus.NewRegistry()))
	hub, target := b.intercepted(gate.HubRoundTripper), b.intercepted(gate.RoundTripper)
	b.Recorder = events.NewFakeRecorder(100)
	config := clients.Gated(b.Server.Config, func(inner http.RoundTripper) http.RoundTripper {
		return gate.RoundTripper(roundTripper(func(request *http.Request) (*http.Response, error) {
			if b.evicting != nil && strings.HasSuffix(request.URL.Path, "/eviction") {
				b.evicting()
			}
			if b.listing != nil && request.Method == http.MethodGet {
				if err := b.listing(); err != nil {
					return nil, err
				}
			}
			return inner.RoundTrip(request)
		}))
	})
	clientset, err := kubernetes.NewForConfig(config)
	b.Expect(err).NotTo(HaveOccurred())
	b.refresh = func() error { return nil }
	b.controller, err = New(Deps{
		Hub: Hub{
			ClusterName: b.namespace, Client: hub, Reader: undecodable.Reader(b.Client), Refresh: func(context.Context) error { return b.refresh() },
		},
		Target: Target{
			Client: target, Reader: b.Client, Drain: drain.New(clientset, b.Clock, b), Requests: b.requests, Version: func() string { return b.serverVersion },
		},
		Drivers: map[string]driver.Driver{"fake": gate.Driver(b.driver)}, Freeze: Freeze{Checker: b.frozen, Downtime: b, ThawLimiter: &b.pace},
		Wake:      func(machine string) { b.woken = append(b.woken, machine) },
		Reporting: Reporting{Recorder: b.Recorder, Metrics: NewMetrics(prometheus.NewRegistry()), Tracing: b.tracers},
		Clock:     b.Clock,
	})
	b.Expect(err).NotTo(HaveOccurred())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// FrozenSince implements freeze.Downtime.
func (b *env) FrozenSince(t time.Time) time.Duration {
	if b.downtime != nil {
		return b.downtime.FrozenSince(t)
	}
	return b.frozenFor
}

// intercepted is a client of the agent: it counts writes to Machines and fails where a test wants it to.
func (b *env) intercepted(gate func(http.RoundTripper) http.RoundTripper) client.Client {
	gated, err := client.NewWithWatch(clients.Gated(b.Server.Config, gate), client.Options{Scheme: scheme.New()})
	b.Expect(err).NotTo(HaveOccurred())
	return interceptor.NewClient(undecodable.WithWatch(gated), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			node, isNode := o.(*corev1.Node)
			cached, held := b.cachedNodes[key.Name]
			switch {
			case !isNode || !held:
				return c.Get(ctx, key, o, options...)
			case cached == nil:
				return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
			}
			cached.DeepCopyInto(node)
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := b.fault("patch", o); err != nil {
				return err
			}
			return b.count("patch", o, c.Patch(ctx, o, patch, options...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := b.fault("delete", o); err != nil {
				return err
			}
			if b.deleting != nil {
				b.deleting()
			}
			err := c.Delete(ctx, o, options...)
			return b.count("delete", o, err)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := b.fault("patch/"+sub, o); err != nil {
				return err
			}
			return b.count("patch/"+sub, o, c.SubResource(sub).Patch(ctx, o, patch, options...))
		},
	})
}

func (b *env) fault(verb string, o client.Object) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := fmt.Sprintf("%s %T", verb, o)
	if b.faults[key] == 0 {
		return nil
	}
	b.faults[key]--
	if b.failure != nil {
		return b.failure
	}
	return fmt.Errorf("a fault of the test: %s", key)
}

func (b *env) count(verb string, o client.Object, err error) error {
	if apierrors.IsConflict(err) {
		b.conflicts++
	}
	if _, ok := o.(*v1alpha1.Machine); ok && err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.hubWrites = append(b.hubWrites, verb)
	}
	return err
}

// create makes a Machine of provider fake, as a MachineSet would.
func (b *env) create(name string, changes ...func(*v1alpha1.Machine)) *v1alpha1.Machine {
	machine := agenttest.Machine(b.namespace, name)
	machine.Spec.ProviderConfig = v1alpha1.ProviderConfig{Provider: "fake", Value: &runtime.RawExtension{Raw: []byte(`{"size":1}`)}}
	for _, change := range changes {
		change(machine)
	}
	b.ExpectApplied(machine)
	return machine
}

func (b *env) tryReconcile(machine *v1alpha1.Machine) (reconcile.Result, error) {
	return b.controller.Reconciler().Reconcile(b.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(machine)})
}

// ExpectReconciled reconciles once, and again after a conflict with the control plane's own writers, and reads the Machine
// if it is still there.
func (b *env) ExpectReconciled(machine *v1alpha1.Machine) (result reconcile.Result) {
	b.T.Helper()
	b.Eventually(func() (bool, error) {
		b.conflicts = 0
		var err error
		result, err = b.tryReconcile(machine)
		if b.conflicts > 0 {
			b.repeated++
		}
		return b.conflicts == 0, err
	}).WithTimeout(agenttest.Wait).Should(BeTrue(), "a conflict that does not end")
	b.read(machine)
	return result
}

func (b *env) read(machine *v1alpha1.Machine) {
	b.T.Helper()
	err := b.Client.Get(b.T.Context(), client.ObjectKeyFromObject(machine), machine)
	b.Expect(client.IgnoreNotFound(err)).To(Succeed())
	if err != nil {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		b.controller.Handler().Delete(b.T.Context(), machineevent.TypedDeleteEvent[*v1alpha1.Machine]{Object: machine}, queue)
	}
}

func (b *env) gone(o client.Object) bool {
	return apierrors.IsNotFound(b.Client.Get(b.T.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)))
}

// join registers a Node as a kubelet does, not ready yet.
func (b *env) join(machine *v1alpha1.Machine) *corev1.Node {
	b.T.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name, Labels: map[string]string{v1alpha1.HollowNodeLabel: "true"}}}
	node.Spec.ProviderID = b.driver.ProviderID(machine.Name)
	b.ExpectApplied(node)
	b.T.Cleanup(func() { _ = client.IgnoreNotFound(b.Client.Delete(context.Background(), node)) })
	b.setReady(node, corev1.ConditionFalse)
	return node
}

func (b *env) setReady(node *corev1.Node, ready corev1.ConditionStatus) {
	b.T.Helper()
	b.Eventually(func() error {
		if err := b.Client.Get(b.T.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		node.Status.NodeInfo.KubeletVersion = "v1.37.1"
		return b.Client.Status().Update(b.T.Context(), node)
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the node's status")
}

// ready brings a Machine to Ready.
func (b *env) ready(machine *v1alpha1.Machine) *corev1.Node {
	b.T.Helper()
	b.ExpectReconciled(machine)
	node := b.join(machine)
	b.ExpectReconciled(machine)
	b.setReady(node, corev1.ConditionTrue)
	b.ExpectReconciled(machine)
	b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady))
	return node
}

func (b *env) writes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	written := slices.Clone(b.hubWrites)
	b.hubWrites = nil
	return written
}

// events returns the events so far.
func haveCondition(conditionType string, status metav1.ConditionStatus, reason string) OmegaMatcher {
	return WithTransform(func(machine *v1alpha1.Machine) string {
		c := meta.FindStatusCondition(machine.Status.Conditions, conditionType)
		if c == nil {
			return "none"
		}
		return fmt.Sprintf("%s/%s", c.Status, c.Reason)
	}, Equal(fmt.Sprintf("%s/%s", status, reason)))
}
