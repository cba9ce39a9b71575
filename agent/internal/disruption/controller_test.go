package disruption

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Claim: Nodes and times are stored before any plan. Broken: plans made of a status that the hub has not got.
func TestARunIsCarriedOutAndItsNodesRecover(t *testing.T) {
	b := newEnv(t, "a", "b")
	run := b.run("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Expectations = []v1alpha1.DisruptionExpectation{{
			Type: v1alpha1.ExpectCondition, Within: metav1.Duration{Duration: 30 * time.Second},
			Condition: &v1alpha1.ExpectedCondition{Type: "Ready", Status: metav1.ConditionFalse},
		}}
	})
	b.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionPending), "as the schema has it")
	b.work()
	status := b.read(run)
	b.Expect(status.StartTime.Time).To(BeTemporally(">", b.Clock.Now()))
	b.Expect(status.Nodes).To(HaveLen(2))
	b.Expect(b.plan(b.node("a"))).To(BeEmpty(), "the hub knows first")
	b.work()
	b.Expect(b.plan(b.node("a"))).To(Equal([]string{"outage"}))
	b.Expect(b.plan(b.node("b"))).To(Equal([]string{"outage"}))

	b.Clock.Step(lead + 3*time.Second)
	b.ready(b.node("a"), corev1.ConditionFalse)
	b.ready(b.node("b"), corev1.ConditionFalse)
	b.work()
	b.Expect(b.read(run)).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Injected", BeEquivalentTo(2)),
		HaveField("Observed", BeEquivalentTo(2)), HaveField("Recovered", BeZero()), HaveField("Verdict", v1alpha1.DisruptionPassed)))

	b.Clock.Step(time.Minute)
	b.work()
	b.Expect(b.read(run)).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Message", ContainSubstring("2 Nodes have not recovered yet"))))
	b.Expect(b.plan(b.node("a"))).To(BeEmpty(), "what is over is taken off the pod")
	b.ready(b.node("a"), corev1.ConditionTrue)
	b.ready(b.node("b"), corev1.ConditionTrue)
	b.work()
	b.Expect(b.read(run)).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Recovered", BeEquivalentTo(2))))
	b.Expect(run.Status.Conditions).To(ConsistOf(And(HaveField("Type", "Ready"), HaveField("Status", metav1.ConditionTrue))))
	version := run.ResourceVersion
	b.Clock.Step(time.Hour)
	b.work()
	b.read(run)
	b.Expect(run.ResourceVersion).To(Equal(version), "what is over is not written again")
}

// Whatever else happens, pods are without a plan when the run is paused or gone.
// Claim: Pausing or deleting removes plans. Broken: a paused run stays in the plans. Also: TestPlansFollowRuns.
func TestDeletingOrPausingRestores(t *testing.T) {
	for name, restore := range map[string]func(*env, *v1alpha1.NodeDisruptionRun){
		"paused": func(b *env, run *v1alpha1.NodeDisruptionRun) { b.merge(run, `{"spec":{"paused":true}}`) },
		"gone": func(b *env, run *v1alpha1.NodeDisruptionRun) {
			b.ExpectDeleted(run)
		},
		"gone, with one that stays": func(b *env, run *v1alpha1.NodeDisruptionRun) {
			b.run("other", func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Paused = true })
			b.ExpectDeleted(run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, "a")
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
// Claim: A silent hub ends nothing. Broken: the answer that there is no such kind taken for an empty list.
func TestAHubWithoutAnAnswerEndsNothing(t *testing.T) {
	b := newEnv(t, "a")
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
		b.Hub.Live = failingReader{b.Hub.Live, answer}
		b.work()
		b.Expect(b.plan(b.node("a"))).To(HaveLen(1), "%v", answer)
		b.Hub.Live = b.Hub.Live.(failingReader).Reader
	}
	b.ExpectDeleted(run)
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

// Two agents of one cluster would undo each other's status forever, because only one of them is frozen.
// Claim: A standby agent reports nothing. Broken: it reports that it is frozen.
func TestABystanderReportsNothing(t *testing.T) {
	b := newEnv(t, "a")
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

// Claim: A frozen agent starts no fault. Broken: start does not ask for the freeze. Also: TestNothingBeginsWhileFrozen.
func TestAFrozenAgentBeginsNothing(t *testing.T) {
	b := newEnv(t, "a")
	run := b.run("outage", nil)
	b.frozen = errors.New("frozen")
	for range 3 {
		b.work()
		b.Clock.Step(time.Minute)
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

// One that is not valid says so; one that cannot be decoded is named, and what it has started continues. Neither stops another.
// Claim: An invalid run affects no other. Broken: the runs that cannot be decoded are forgotten.
func TestABadRunStopsNoOther(t *testing.T) {
	b := newEnv(t, "a")
	environment := agenttest.Environment(t)
	good, bad := b.run("good", nil), b.run("bad", nil)
	// It is older than the rule that refuses it.
	wrong := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "wrong"}}
	wrong.Spec.Faults = []disrupt.Fault{{Type: disrupt.NotReady}}
	wrong.Spec.Timing = v1alpha1.DisruptionTiming{
		Duration: metav1.Duration{Duration: time.Minute}, UnhealthyFor: metav1.Duration{Duration: time.Second}, Jitter: metav1.Duration{Duration: time.Minute},
	}
	b.Expect(environment.Loosely(t.Context(), func(ctx context.Context) error { return b.Client.Create(ctx, wrong) }, "nodedisruptionruns.hollowfleet.io")).To(Succeed())
	b.work()
	b.work()
	b.Expect(b.read(wrong)).To(And(HaveField("Phase", v1alpha1.NodeDisruptionFailed), HaveField("Message", ContainSubstring("spec.timing"))))
	b.Expect(b.plan(b.node("a"))).To(ConsistOf("good", "bad"))

	b.Expect(environment.Loosely(t.Context(), func(ctx context.Context) error {
		return b.Client.Patch(ctx, bad.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timing":{"duration":"1 week"}}}`)))
	}, "nodedisruptionruns.hollowfleet.io")).To(Succeed())
	b.ExpectDeleted(good)
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
	b := newEnv(t, "a", "b")
	b.run("outage", nil)
	b.work()
	b.refuse["PATCH /api/v1/namespaces/"+b.namespace+"/pods/"+b.node("a")] = errors.New("refused")
	b.Expect(b.Work(t.Context())).To(MatchError(ContainSubstring(b.node("a"))))
	b.Expect(b.plan(b.node("a"))).To(BeEmpty())
	b.Expect(b.plan(b.node("b"))).To(HaveLen(1))
}

// The status is what a run goes by: as long as the hub has not got it, nothing starts.
func TestNothingBeginsThatTheHubDoesNotKnow(t *testing.T) {
	b := newEnv(t, "a")
	run := b.run("outage", nil)
	status := "PATCH /apis/hollowfleet.io/v1alpha1/namespaces/" + b.namespace + "/nodedisruptionruns/outage/status"
	b.refuse[status] = errors.New("refused")
	for range 3 {
		b.Expect(b.Work(t.Context())).To(MatchError(ContainSubstring("refused")))
		b.Clock.Step(interval)
	}
	b.Expect(b.plan(b.node("a"))).To(BeEmpty())
	delete(b.refuse, status)
	b.work()
	b.work()
	b.Expect(b.read(run).StartTime).NotTo(BeNil())
	b.Expect(b.plan(b.node("a"))).To(HaveLen(1))
}

// Claim: Evictions are counted at the API server. Broken: no pod counts.
func TestEvictionsAreCounted(t *testing.T) {
	b := newEnv(t, "a", "b")
	run := b.run("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Expectations = []v1alpha1.DisruptionExpectation{{Type: v1alpha1.ExpectPodsEvicted, Within: metav1.Duration{Duration: 40 * time.Second}}}
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "workload"}}
	pod.Spec.NodeName, pod.Spec.Containers = b.node("a"), []corev1.Container{{Name: "c", Image: "none"}}
	b.ExpectApplied(pod)
	b.work()
	b.work()
	b.Clock.Step(lead + 3*time.Second)
	b.Eventually(func(g Gomega) { // The API server's cache may be behind.
		g.Expect(b.Work(t.Context())).To(Succeed())
		g.Expect(b.read(run).Nodes).To(ContainElement(HaveField("Pods", HaveValue(BeEquivalentTo(1)))))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	b.Expect(run.Status.Expectations).To(ConsistOf(v1alpha1.ExpectationResult{Type: v1alpha1.ExpectPodsEvicted, Pending: 1}), "the other Node has no pods")
	b.Expect(b.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	b.Eventually(func(g Gomega) {
		g.Expect(b.Work(t.Context())).To(Succeed())
		g.Expect(b.read(run).Verdict).To(Equal(v1alpha1.DisruptionPassed))
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

func TestAFaultWithoutItsParametersIsRefused(t *testing.T) {
	b := newEnv(t)
	wrong := &v1alpha1.NodeDisruptionRun{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "flap"}}
	wrong.Spec.Faults = []disrupt.Fault{{Type: disrupt.Flap}}
	wrong.Spec.Timing.Duration = metav1.Duration{Duration: time.Minute}
	b.Expect(b.Client.Create(t.Context(), wrong)).To(MatchError(ContainSubstring("named like the type")))
}
