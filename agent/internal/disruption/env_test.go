package disruption

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// env is a Controller of a real cluster, in a namespace of its own for workload, host and hub.
type env struct {
	*testenv.Env
	*Controller
	namespace string

	mu sync.Mutex
	// refuse answers requests whose method and path start so.
	refuse map[string]error
	frozen error
	// thawedChecks is how many more times frozen is not told yet.
	thawedChecks int
}

// Check implements freeze.Checker.
func (b *env) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.thawedChecks > 0 {
		b.thawedChecks--
		return nil
	}
	return b.frozen
}

// FrozenSince implements freeze.Downtime.
func (b *env) FrozenSince(time.Time) time.Duration { return 0 }

// Answered says that the API server always answers.
func (b *env) Answered(freeze.Scope) time.Time { return b.Clock.Now() }

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func newEnv(t *testing.T, nodes ...string) *env {
	t.Helper()
	b := &env{Env: agenttest.NewEnv(t), refuse: map[string]error{}}
	b.namespace = agenttest.Namespace(t, b.Client)
	config := clients.Gated(b.Server.Config, func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			b.mu.Lock()
			var refused error
			for what, err := range b.refuse {
				if strings.HasPrefix(request.Method+" "+request.URL.Path, what) {
					refused = err
				}
			}
			b.mu.Unlock()
			if refused != nil {
				return nil, refused
			}
			return inner.RoundTrip(request)
		})
	})
	scheme, err := clients.Scheme()
	b.Expect(err).NotTo(HaveOccurred())
	direct, err := client.New(config, client.Options{Scheme: scheme, Mapper: clients.Mapper()})
	b.Expect(err).NotTo(HaveOccurred())
	target, err := kubernetes.NewForConfig(config)
	b.Expect(err).NotTo(HaveOccurred())
	watches, err := metadata.NewForConfig(config)
	b.Expect(err).NotTo(HaveOccurred())
	b.Controller, err = New(Deps{
		Hub: clients.Hub{Namespace: b.namespace, Client: direct, Live: direct}, Nodes: direct,
		Watch: watches.Resource(v1alpha1.GroupVersion.WithResource("nodedisruptionruns")).Namespace(b.namespace).Watch,
		Host:  clients.Host{Namespace: b.namespace, Client: direct}, Target: target, Freeze: b, Runtime: poll.Runtime{Clock: b.Clock, Log: logr.Discard()},
	})
	b.Expect(err).NotTo(HaveOccurred())
	for _, name := range nodes {
		b.machine(b.node(name))
	}
	return b
}

// node is the name of a Machine that no other test has: Nodes are in no namespace.
func (b *env) node(name string) string { return b.namespace + "-" + name }

// machine makes a Machine with a Ready Node and a pod that follows its plan.
func (b *env) machine(name string) {
	b.T.Helper()
	machine := agenttest.Machine(b.namespace, name)
	machine.Finalizers = nil
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
	b.ExpectApplied(machine)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{v1alpha1.MachineNameLabel: name}}}
	pod.Spec.Containers = []corev1.Container{{Name: "hollow-node", Image: "none"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: disrupt.VolumeName, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}}}
	b.ExpectApplied(pod)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.ExpectApplied(node)
	b.T.Cleanup(func() { _ = b.Client.Delete(b.T.Context(), node) })
	b.ready(name, corev1.ConditionTrue)
}

func (b *env) ready(name string, status corev1.ConditionStatus) {
	b.T.Helper()
	b.Eventually(func() error {
		node := &corev1.Node{}
		if err := b.Client.Get(b.T.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		return b.Client.Status().Update(b.T.Context(), node)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

// run makes a run that lets all Nodes be not ready for a minute. Its creation has the API server's time, which the fake clock
// follows.
func (b *env) run(name string, change func(*v1alpha1.NodeDisruptionRunSpec)) *v1alpha1.NodeDisruptionRun {
	b.T.Helper()
	run := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	run.Spec.Faults = []disrupt.Fault{{Type: disrupt.NotReady}}
	run.Spec.Timing.Duration = metav1.Duration{Duration: time.Minute}
	if change != nil {
		change(&run.Spec)
	}
	b.ExpectApplied(run)
	if b.Clock.Now().Before(run.CreationTimestamp.Time) {
		b.Clock.SetTime(run.CreationTimestamp.Time)
	}
	return run
}

// read returns what the hub has of a run.
func (b *env) read(run *v1alpha1.NodeDisruptionRun) v1alpha1.NodeDisruptionRunStatus {
	b.T.Helper()
	b.ExpectExists(run)
	return run.Status
}

// plan returns the runs in the annotation of a pod.
func (b *env) plan(name string) []string {
	b.T.Helper()
	pod := &corev1.Pod{}
	b.Expect(b.Client.Get(b.T.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, pod)).To(Succeed())
	plan, err := disrupt.Decode([]byte(pod.Annotations[disrupt.Annotation]))
	b.Expect(err).NotTo(HaveOccurred())
	var runs []string
	for _, entry := range plan.Entries {
		runs = append(runs, entry.Run)
	}
	return runs
}

func (b *env) work() {
	b.T.Helper()
	b.Expect(b.Work(b.T.Context())).To(Succeed())
}

func (b *env) merge(object client.Object, patch string) {
	b.T.Helper()
	b.Expect(b.Client.Patch(b.T.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}
