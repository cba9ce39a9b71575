package loadtest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// env is the agent of a cluster of its own, as far as load tests go: its namespace on the hub is its own, the cluster is the real
// API server of all tests.
type env struct {
	*testenv.Env
	target    kubernetes.Interface
	namespace string

	// looks counts how often the agent has looked at heartbeats.
	looks atomic.Int32

	// timing changes how long the controller waits between rounds.
	timing func(*Controller)
	// refuse chooses requests that are answered with an error.
	refuse func(*http.Request) bool

	mu     sync.Mutex
	frozen error
	kill   context.CancelFunc
	dead   chan struct{}
}

// Check implements freeze.Checker.
func (b *env) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.frozen
}

func (b *env) freeze(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = err
}

// gate refuses changes while frozen, as the agent's does.
func (b *env) gate(inner http.RoundTripper) http.RoundTripper {
	return gated(func(request *http.Request) (*http.Response, error) {
		if err := b.Check(); err != nil && request.Method != http.MethodGet && !strings.HasSuffix(request.URL.Path, "/status") {
			return nil, err
		}
		if b.refuse != nil && b.refuse(request) {
			return nil, errors.New("refused by the test")
		}
		response, err := inner.RoundTrip(request)
		if strings.HasSuffix(request.URL.Path, "/leases") && err == nil {
			b.looks.Add(1)
		}
		return response, err
	})
}

type gated func(*http.Request) (*http.Response, error)

func (g gated) RoundTrip(request *http.Request) (*http.Response, error) { return g(request) }

func newEnv(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	b := &env{Env: agenttest.NewEnv(t)}
	b.namespace = agenttest.Namespace(t, b.Client)
	b.SetDefaultEventuallyTimeout(agenttest.Wait)
	// A run takes seconds, most of which it waits.
	b.SetDefaultEventuallyPollingInterval(3 * testenv.Poll)
	var err error
	b.target, err = kubernetes.NewForConfig(b.Server.Config)
	b.Expect(err).NotTo(HaveOccurred())
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

// start starts an agent.
func (b *env) start() { b.startWith(b.Server.Config) }

// startWith starts an agent that has the rights of restricted in its cluster.
func (b *env) startWith(restricted *rest.Config) {
	b.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.kill, b.dead = cancel, make(chan struct{})
	scheme, err := clients.Scheme()
	b.Expect(err).NotTo(HaveOccurred())
	config := clients.Gated(b.Server.Config, b.gate)
	direct, err := client.New(config, client.Options{Scheme: scheme, Mapper: clients.Mapper()})
	b.Expect(err).NotTo(HaveOccurred())
	nodes, err := cache.New(b.Server.Config, cache.Options{Scheme: scheme, Mapper: clients.Mapper()})
	b.Expect(err).NotTo(HaveOccurred())
	var group sync.WaitGroup
	runs := func(what string, start func(context.Context) error) {
		group.Go(func() {
			if err := start(ctx); err != nil {
				b.T.Errorf("running %s: %v", what, err)
			}
		})
	}
	runs("the cache of Nodes", nodes.Start)
	target, err := kubernetes.NewForConfig(clients.Gated(restricted, b.gate))
	b.Expect(err).NotTo(HaveOccurred())
	watches, err := metadata.NewForConfig(config)
	b.Expect(err).NotTo(HaveOccurred())
	c, err := New(Deps{
		Hub: clients.Hub{Namespace: b.namespace, Client: direct, Live: direct}, Target: target, NodeInformers: nodes,
		Host:  clients.Host{Namespace: b.namespace, Client: direct},
		Watch: watches.Resource(v1alpha1.GroupVersion.WithResource("loadtestruns")).Namespace(b.namespace).Watch,
		Load: func(observe func(http.RoundTripper) http.RoundTripper) (*clients.Load, error) {
			return clients.NewLoad(restricted, b.gate, observe)
		},
		Freeze: b, Runtime: poll.Runtime{Clock: clock.RealClock{}, Log: logr.Discard()},
	})
	b.Expect(err).NotTo(HaveOccurred())
	c.busyFor, c.blind = 200*time.Millisecond, 200*time.Millisecond
	if b.timing != nil {
		b.timing(c)
	}
	dead := b.dead
	runs("the controller", c.Start)
	go func() {
		defer close(dead)
		group.Wait()
	}()
}

// stop ends the agent.
func (b *env) stop() {
	b.kill()
	<-b.dead
}

const configMap = "apiVersion: v1\nkind: ConfigMap\ndata: {index: \"{{.Index}}\", of: \"{{.Name}} {{.Namespace}} {{.Run}} {{.Iteration}}\"}\n"

// create makes a run of which each step has the phases that are given.
func (b *env) create(name, object string, change func(*v1alpha1.LoadTestRunSpec), steps ...[]v1alpha1.LoadPhase) *v1alpha1.LoadTestRun {
	b.T.Helper()
	run := &v1alpha1.LoadTestRun{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	run.Spec.Templates = []v1alpha1.LoadTemplate{{Name: "thing", Object: object}}
	for i, phases := range steps {
		run.Spec.Steps = append(run.Spec.Steps, v1alpha1.LoadStep{Name: string(rune('a' + i)), Phases: phases})
	}
	if change != nil {
		change(&run.Spec)
	}
	b.ExpectApplied(run)
	b.T.Cleanup(func() { _ = b.Client.Delete(context.Background(), run) })
	return run
}

func creates(replicas int32) []v1alpha1.LoadPhase {
	return []v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "thing", Replicas: replicas, Tuning: v1alpha1.LoadTuning{QPS: 100}, Wait: v1alpha1.LoadWaitReady}}
}

func waits(d time.Duration) []v1alpha1.LoadPhase {
	return []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: d}}}
}

func repeats(action v1alpha1.LoadAction, d time.Duration) v1alpha1.LoadPhase {
	return v1alpha1.LoadPhase{Action: action, Template: "thing", Duration: &metav1.Duration{Duration: d}, Tuning: v1alpha1.LoadTuning{QPS: 20}}
}

// status returns a function that reads the status of a run.
func (b *env) status(run *v1alpha1.LoadTestRun) func() (v1alpha1.LoadTestRunStatus, error) {
	return func() (v1alpha1.LoadTestRunStatus, error) {
		err := b.Client.Get(context.Background(), client.ObjectKeyFromObject(run), run)
		return run.Status, err
	}
}

// expectEnded waits until nothing of a run changes any more.
func (b *env) expectEnded(run *v1alpha1.LoadTestRun) v1alpha1.LoadTestRunStatus {
	b.T.Helper()
	b.Eventually(b.status(run)).Should(HaveField("Phase", BeElementOf(v1alpha1.LoadTestRunPhaseCompleted, v1alpha1.LoadTestRunPhaseFailed)), "the run ends")
	return run.Status
}

func (b *env) expectPhase(run *v1alpha1.LoadTestRun, phase v1alpha1.LoadTestRunPhase) {
	b.T.Helper()
	b.Eventually(b.status(run)).Should(HaveField("Phase", phase))
}

func (b *env) merge(object client.Object, patch string) {
	b.T.Helper()
	b.Expect(b.Client.Patch(b.T.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// namespaces are those of a run that are there.
func (b *env) namespaces(run *v1alpha1.LoadTestRun) []string {
	b.T.Helper()
	list := &corev1.NamespaceList{}
	b.Expect(b.Client.List(b.T.Context(), list, client.MatchingLabels{v1alpha1.LoadTestRunUIDLabel: string(run.UID)})).To(Succeed())
	var names []string
	for _, namespace := range list.Items {
		names = append(names, namespace.Name)
	}
	return names
}

func measuredIn(status v1alpha1.LoadTestRunStatus, measurement v1alpha1.LoadMeasurement, verb string) int64 {
	var count int64
	for _, histogram := range status.Histograms {
		if histogram.Measurement == measurement && (verb == "" || histogram.Verb == verb) {
			count += histogram.Count
		}
	}
	return count
}

// long is a run that makes objects and then waits forever.
func (b *env) long(change func(*v1alpha1.LoadTestRunSpec)) *v1alpha1.LoadTestRun {
	b.T.Helper()
	run := b.create("long", configMap, change, creates(5), waits(time.Hour))
	b.Eventually(b.status(run)).Should(HaveField("Progress.Steps", BeEquivalentTo(1)))
	return run
}
