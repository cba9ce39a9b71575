package disruption

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestMain(m *testing.M) { agenttest.Main(m) }

// bed is a Controller of a real cluster, in a namespace of its own for workload, host and hub.
type bed struct {
	*WithT
	*Controller
	t         *testing.T
	admin     client.Client
	namespace string
	clock     *clocktesting.FakeClock

	mu sync.Mutex
	// refuse answers requests whose method and path begin so.
	refuse map[string]error
	frozen error
}

// Check implements freeze.Checker.
func (b *bed) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.frozen
}

// FrozenSince implements freeze.Downtime.
func (b *bed) FrozenSince(time.Time) time.Duration { return 0 }

// Answered says that the API server always answers.
func (b *bed) Answered(freeze.Scope) time.Time { return b.clock.Now() }

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func newBed(t *testing.T, nodes ...string) *bed {
	t.Helper()
	environment := agenttest.Environment(t)
	b := &bed{t: t, WithT: NewWithT(t), admin: environment.Client, clock: clocktesting.NewFakeClock(time.Now()), refuse: map[string]error{}}
	b.namespace = agenttest.Namespace(t, b.admin)
	config := clients.Gated(environment.Config, func(inner http.RoundTripper) http.RoundTripper {
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
	b.Controller, err = New(Deps{
		Namespace: b.namespace, Runs: direct, Hub: direct, Nodes: direct, Host: direct, HostNamespace: b.namespace, Target: target,
		Freeze: b, Clock: b.clock, Log: logr.Discard(),
	})
	b.Expect(err).NotTo(HaveOccurred())
	for _, name := range nodes {
		b.machine(b.node(name))
	}
	return b
}

// node is the name of a Machine that no other test has: Nodes are in no namespace.
func (b *bed) node(name string) string { return b.namespace + "-" + name }

// machine makes a Machine with a Ready Node and a pod that follows its plan.
func (b *bed) machine(name string) {
	b.t.Helper()
	machine := agenttest.Machine(b.namespace, name)
	machine.Finalizers = nil
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig"}`)}
	b.Expect(b.admin.Create(b.t.Context(), machine)).To(Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{v1alpha1.MachineNameLabel: name}}}
	pod.Spec.Containers = []corev1.Container{{Name: "hollow-node", Image: "none"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: disrupt.VolumeName, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}}}
	b.Expect(b.admin.Create(b.t.Context(), pod)).To(Succeed())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Expect(b.admin.Create(b.t.Context(), node)).To(Succeed())
	b.t.Cleanup(func() { _ = b.admin.Delete(b.t.Context(), node) })
	b.ready(name, corev1.ConditionTrue)
}

func (b *bed) ready(name string, status corev1.ConditionStatus) {
	b.t.Helper()
	b.Eventually(func() error {
		node := &corev1.Node{}
		if err := b.admin.Get(b.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		return b.admin.Status().Update(b.t.Context(), node)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

// run makes a run that lets all Nodes be not ready for a minute. Its creation has the API server's time, which the fake clock
// follows.
func (b *bed) run(name string, change func(*v1alpha1.NodeDisruptionRunSpec)) *v1alpha1.NodeDisruptionRun {
	b.t.Helper()
	run := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	run.Spec.Faults = []disrupt.Fault{{Type: disrupt.NotReady}}
	run.Spec.Timing.Duration = metav1.Duration{Duration: time.Minute}
	if change != nil {
		change(&run.Spec)
	}
	b.Expect(b.admin.Create(b.t.Context(), run)).To(Succeed())
	if b.clock.Now().Before(run.CreationTimestamp.Time) {
		b.clock.SetTime(run.CreationTimestamp.Time)
	}
	return run
}

// read returns what the hub has of a run.
func (b *bed) read(run *v1alpha1.NodeDisruptionRun) v1alpha1.NodeDisruptionRunStatus {
	b.t.Helper()
	b.Expect(b.admin.Get(b.t.Context(), client.ObjectKeyFromObject(run), run)).To(Succeed())
	return run.Status
}

// plan returns the runs in the annotation of a pod.
func (b *bed) plan(name string) []string {
	b.t.Helper()
	pod := &corev1.Pod{}
	b.Expect(b.admin.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, pod)).To(Succeed())
	plan, err := disrupt.Decode([]byte(pod.Annotations[disrupt.Annotation]))
	b.Expect(err).NotTo(HaveOccurred())
	var runs []string
	for _, entry := range plan.Entries {
		runs = append(runs, entry.Run)
	}
	return runs
}

func (b *bed) work() {
	b.t.Helper()
	b.Expect(b.Work(b.t.Context())).To(Succeed())
}

func (b *bed) merge(object client.Object, patch string) {
	b.t.Helper()
	b.Expect(b.admin.Patch(b.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

func TestARunIsCarriedOutAndItsNodesRecover(t *testing.T) {
	b := newBed(t, "a", "b")
	run := b.run("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Expectations = []v1alpha1.DisruptionExpectation{{
			Type: v1alpha1.ExpectCondition, Within: metav1.Duration{Duration: 30 * time.Second},
			Condition: &v1alpha1.ExpectedCondition{Type: "Ready", Status: metav1.ConditionFalse},
		}}
	})
	b.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionPending), "as the schema has it")
	b.work()
	status := b.read(run)
	b.Expect(status.StartTime.Time).To(BeTemporally(">", b.clock.Now()))
	b.Expect(status.Nodes).To(HaveLen(2))
	b.Expect(b.plan(b.node("a"))).To(BeEmpty(), "the hub knows first")
	b.work()
	b.Expect(b.plan(b.node("a"))).To(Equal([]string{"outage"}))
	b.Expect(b.plan(b.node("b"))).To(Equal([]string{"outage"}))

	b.clock.Step(lead + 3*time.Second)
	b.ready(b.node("a"), corev1.ConditionFalse)
	b.ready(b.node("b"), corev1.ConditionFalse)
	b.work()
	b.Expect(b.read(run)).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Injected", BeEquivalentTo(2)),
		HaveField("Observed", BeEquivalentTo(2)), HaveField("Recovered", BeZero()), HaveField("Verdict", v1alpha1.DisruptionPassed)))

	b.clock.Step(time.Minute)
	b.work()
	b.Expect(b.read(run)).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Message", ContainSubstring("2 Nodes are not well again yet"))))
	b.Expect(b.plan(b.node("a"))).To(BeEmpty(), "what is over is taken off the pod")
	b.ready(b.node("a"), corev1.ConditionTrue)
	b.ready(b.node("b"), corev1.ConditionTrue)
	b.work()
	b.Expect(b.read(run)).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Recovered", BeEquivalentTo(2))))
	b.Expect(run.Status.Conditions).To(ConsistOf(And(HaveField("Type", "Ready"), HaveField("Status", metav1.ConditionTrue))))
	version := run.ResourceVersion
	b.clock.Step(time.Hour)
	b.work()
	b.read(run)
	b.Expect(run.ResourceVersion).To(Equal(version), "what is over is not written again")
}

// Whatever else happens, pods are without a plan when the run is paused or gone.
func TestDeletingOrPausingRestores(t *testing.T) {
	for name, restore := range map[string]func(*bed, *v1alpha1.NodeDisruptionRun){
		"paused": func(b *bed, run *v1alpha1.NodeDisruptionRun) { b.merge(run, `{"spec":{"paused":true}}`) },
		"gone": func(b *bed, run *v1alpha1.NodeDisruptionRun) {
			b.Expect(b.admin.Delete(b.t.Context(), run)).To(Succeed())
		},
		"gone, with one that stays": func(b *bed, run *v1alpha1.NodeDisruptionRun) {
			b.run("other", func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Paused = true })
			b.Expect(b.admin.Delete(b.t.Context(), run)).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "a")
			run := b.run("outage", nil)
			b.work()
			b.work()
			b.Expect(b.plan(b.node("a"))).To(HaveLen(1))
			restore(b, run)
			b.work()
			b.Expect(b.plan(b.node("a"))).To(BeEmpty())
		})
	}
}

// A hub that does not answer, or does not have the kind, is no hub without runs.
func TestAHubWithoutAnAnswerEndsNothing(t *testing.T) {
	b := newBed(t, "a")
	run := b.run("outage", nil)
	b.work()
	b.work()
	runs := "GET /apis/hollowfleet.io/v1alpha1/namespaces/" + b.namespace + "/nodedisruptionruns"
	b.refuse[runs] = errors.New("cut off")
	b.Expect(b.Work(t.Context())).To(MatchError(ContainSubstring("cut off")))
	b.Expect(b.plan(b.node("a"))).To(HaveLen(1))
	delete(b.refuse, runs)
	for _, answer := range []error{
		apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("nodedisruptionruns").GroupResource(), "", errors.New("an old role")),
		apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("nodedisruptionruns").GroupResource(), ""),
	} {
		b.Runs = failingReader{b.Runs, answer}
		b.work()
		b.Expect(b.plan(b.node("a"))).To(HaveLen(1), "%v", answer)
		b.Runs = b.Runs.(failingReader).Reader
	}
	b.Expect(b.admin.Delete(t.Context(), run)).To(Succeed())
	b.work()
	b.Expect(b.plan(b.node("a"))).To(BeEmpty())
}

// failingReader answers lists with an error.
type failingReader struct {
	client.Reader
	err error
}

func (r failingReader) List(_ context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	return r.err
}

// Two agents of one cluster would undo each other's status for ever, because only one of them is frozen.
func TestABystanderReportsNothing(t *testing.T) {
	b := newBed(t, "a")
	run := b.run("outage", nil)
	for _, reason := range []string{v1alpha1.ReasonAnotherAgent, v1alpha1.ReasonLeaseNotHeld} {
		b.frozen = &freeze.Error{Reason: reason, Message: "another agent works for the cluster"}
		b.work()
		b.Expect(b.read(run).Message).To(BeEmpty())
	}
	b.frozen = &freeze.Error{Reason: v1alpha1.ReasonManualFreeze, Message: "a user has ordered it"}
	b.work()
	b.Expect(b.read(run).Message).To(ContainSubstring("frozen"))
}

func TestAFrozenAgentBeginsNothing(t *testing.T) {
	b := newBed(t, "a")
	run := b.run("outage", nil)
	b.frozen = errors.New("frozen")
	for range 3 {
		b.work()
		b.clock.Step(time.Minute)
	}
	b.Expect(b.read(run)).To(And(HaveField("StartTime", BeNil()), HaveField("Message", ContainSubstring("frozen"))))
	b.Expect(b.plan(b.node("a"))).To(BeEmpty())
	b.frozen = nil
	b.work()
	b.frozen = errors.New("frozen")
	b.work()
	b.Expect(b.plan(b.node("a"))).To(BeEmpty(), "the status was written before the freeze, the plan was not")
	b.frozen = nil
	b.work()
	b.Expect(b.plan(b.node("a"))).To(HaveLen(1))
}

// One that is not valid says so; one that cannot be decoded is named, and what it has begun goes on. Neither stops another.
func TestABadRunStopsNoOther(t *testing.T) {
	b := newBed(t, "a")
	environment := agenttest.Environment(t)
	good, bad := b.run("good", nil), b.run("bad", nil)
	wrong := b.run("wrong", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Timing.UnhealthyFor, spec.Timing.Jitter = metav1.Duration{Duration: time.Second}, metav1.Duration{Duration: time.Minute}
	})
	b.work()
	b.work()
	b.Expect(b.read(wrong)).To(And(HaveField("Phase", v1alpha1.NodeDisruptionFailed), HaveField("Message", ContainSubstring("spec.timing"))))
	b.Expect(b.plan(b.node("a"))).To(ConsistOf("good", "bad"))

	b.Expect(environment.Loosely(t.Context(), func(ctx context.Context) error {
		return b.admin.Patch(ctx, bad.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timing":{"duration":"1 week"}}}`)))
	}, "nodedisruptionruns.hollowfleet.io")).To(Succeed())
	b.Expect(b.admin.Delete(t.Context(), good)).To(Succeed())
	later := b.run("later", nil)
	b.Expect(b.Work(t.Context())).To(MatchError(ContainSubstring("NodeDisruptionRun " + b.namespace + "/bad cannot be decoded")))
	b.Expect(b.plan(b.node("a"))).To(Equal([]string{"bad"}))
	b.Expect(b.read(later).StartTime).NotTo(BeNil())
	b.Expect(b.Work(t.Context())).To(HaveOccurred())
	b.Expect(b.plan(b.node("a"))).To(ConsistOf("bad", "later"))
	b.Expect(environment.Remove(t.Context(), bad)).To(Succeed())
	b.work()
	b.Expect(b.plan(b.node("a"))).To(Equal([]string{"later"}))
}

func TestAPodThatCannotBeWrittenStopsNoOther(t *testing.T) {
	b := newBed(t, "a", "b")
	b.run("outage", nil)
	b.work()
	b.refuse["PATCH /api/v1/namespaces/"+b.namespace+"/pods/"+b.node("a")] = errors.New("refused")
	b.Expect(b.Work(t.Context())).To(MatchError(ContainSubstring(b.node("a"))))
	b.Expect(b.plan(b.node("a"))).To(BeEmpty())
	b.Expect(b.plan(b.node("b"))).To(HaveLen(1))
}

// The status is what a run goes by: as long as the hub has not got it, nothing begins.
func TestNothingBeginsThatTheHubDoesNotKnow(t *testing.T) {
	b := newBed(t, "a")
	run := b.run("outage", nil)
	status := "PATCH /apis/hollowfleet.io/v1alpha1/namespaces/" + b.namespace + "/nodedisruptionruns/outage/status"
	b.refuse[status] = errors.New("refused")
	for range 3 {
		b.Expect(b.Work(t.Context())).To(MatchError(ContainSubstring("refused")))
		b.clock.Step(interval)
	}
	b.Expect(b.plan(b.node("a"))).To(BeEmpty())
	delete(b.refuse, status)
	b.work()
	b.work()
	b.Expect(b.read(run).StartTime).NotTo(BeNil())
	b.Expect(b.plan(b.node("a"))).To(HaveLen(1))
}

func TestEvictionsAreCounted(t *testing.T) {
	b := newBed(t, "a", "b")
	run := b.run("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Expectations = []v1alpha1.DisruptionExpectation{{Type: v1alpha1.ExpectPodsEvicted, Within: metav1.Duration{Duration: 40 * time.Second}}}
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "workload"}}
	pod.Spec.NodeName, pod.Spec.Containers = b.node("a"), []corev1.Container{{Name: "c", Image: "none"}}
	b.Expect(b.admin.Create(t.Context(), pod)).To(Succeed())
	b.work()
	b.work()
	b.clock.Step(lead + 3*time.Second)
	b.Eventually(func(g Gomega) { // The API server's cache may be behind.
		g.Expect(b.Work(t.Context())).To(Succeed())
		g.Expect(b.read(run).Nodes).To(ContainElement(HaveField("Pods", HaveValue(BeEquivalentTo(1)))))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	b.Expect(run.Status.Expectations).To(ConsistOf(v1alpha1.ExpectationResult{Type: v1alpha1.ExpectPodsEvicted, Pending: 1}), "the other Node has no pods")
	b.Expect(b.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	b.Eventually(func(g Gomega) {
		g.Expect(b.Work(t.Context())).To(Succeed())
		g.Expect(b.read(run).Verdict).To(Equal(v1alpha1.DisruptionPassed))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

func TestAFaultWithoutItsParametersIsRefused(t *testing.T) {
	b := newBed(t)
	wrong := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "flap"}}
	wrong.Spec.Faults = []disrupt.Fault{{Type: disrupt.Flap}}
	wrong.Spec.Timing.Duration = metav1.Duration{Duration: time.Minute}
	b.Expect(b.admin.Create(t.Context(), wrong)).To(MatchError(ContainSubstring("named like the type")))
}
