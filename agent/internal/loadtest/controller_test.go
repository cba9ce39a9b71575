package loadtest

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestARunIsCarriedOutAndLeavesNothing(t *testing.T) {
	b := newEnv(t)
	run := b.create("all", configMap, func(spec *v1alpha1.LoadTestRunSpec) {
		spec.Namespaces = 2
		spec.Thresholds = []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadAPIRequest, Verb: "POST", Max: &metav1.Duration{Duration: time.Minute}}}
	}, creates(5), []v1alpha1.LoadPhase{
		repeats(v1alpha1.LoadGet, time.Second), repeats(v1alpha1.LoadList, time.Second), repeats(v1alpha1.LoadPatch, time.Second),
	}, []v1alpha1.LoadPhase{{Action: v1alpha1.LoadDelete, Template: "thing", Replicas: 3, Tuning: v1alpha1.LoadTuning{QPS: 100}, Wait: v1alpha1.LoadWaitGone}})
	status := b.expectEnded(run)
	b.Expect(status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseCompleted), status.Message)
	b.Expect(status.Verdict).To(Equal(v1alpha1.LoadPassed), status.Message)
	b.Expect(status.StartTime).NotTo(BeNil())
	b.Expect(status.EndTime).NotTo(BeNil())
	b.Expect(status.Progress).To(And(HaveField("Steps", BeEquivalentTo(3)), HaveField("StepsTotal", BeEquivalentTo(3)), HaveField("Failed", BeZero())), status.Message)
	for verb, count := range map[string]int{"POST": 10, "GET": 20, "LIST": 20, "PATCH": 20, "DELETE": 6} {
		b.Expect(measuredIn(status, v1alpha1.LoadAPIRequest, verb)).To(BeEquivalentTo(count), verb)
	}
	b.Expect(b.namespaces(run)).To(BeEmpty())
	b.Eventually(func() ([]string, error) {
		err := b.Client.Get(context.Background(), client.ObjectKeyFromObject(run), run)
		return run.Finalizers, err
	}).Should(BeEmpty(), "nothing is left that a deletion would have to wait for")
}

// Claim: New runs are found without a watch. Broken: it does not watch.
func TestAChangeOfRunsIsNotWaitedForInVain(t *testing.T) {
	t.Parallel()
	watches := func(request *http.Request) bool {
		return request.URL.Query().Get("watch") == "true" && strings.HasSuffix(request.URL.Path, "/loadtestruns")
	}
	for name, test := range map[string]struct {
		timing func(*Controller)
		refuse func(*http.Request) bool
	}{
		"a change is seen":          {timing: func(c *Controller) { c.blind, c.idle = time.Hour, time.Hour }},
		"changes cannot be watched": {timing: func(c *Controller) { c.idle = time.Hour }, refuse: watches},
		"a watch is silent": {timing: func(c *Controller) {
			c.blind, c.idle = time.Hour, 200*time.Millisecond
			c.Watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			b.stop()
			b.timing, b.refuse = test.timing, test.refuse
			b.start()
			for _, name := range []string{"first", "second"} {
				b.Expect(b.expectEnded(b.create(name, configMap, nil, creates(1))).Phase).To(Equal(v1alpha1.LoadTestRunPhaseCompleted))
			}
		})
	}
}

// Claim: Refusals are known before load. Broken: no dry run.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	pod := "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: none%s}]}\n"
	for name, test := range map[string]struct{ object, want string }{
		"a template that does not parse": {"{{.Name", "template thing of step a: parsing"},
		"a kind that is not served":      {"apiVersion: v1\nkind: Nothing", "serves no kind Nothing in apiVersion v1"},
		"a version that is not served":   {"apiVersion: nothing.example.com/v1\nkind: Pod", "does not serve apiVersion nothing.example.com/v1"},
		"a kind in no namespace":         {"apiVersion: v1\nkind: Node", "kind Node is not namespaced"},
		"an object that is not valid":    {"apiVersion: v1\nkind: Pod\nspec: {containers: []}", "spec.containers: Required value"},
		"a field that there is not":      {strings.Replace(pod, "%s", ", nothing: 1", 1), "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			b.stop()
			b.timing = func(c *Controller) { c.Limits.Kinds = []string{"Node", "Nothing", "Pod.nothing.example.com"} }
			b.start()
			run := b.create("refused", test.object, nil, creates(1))
			status := b.expectEnded(run)
			b.Expect(status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseFailed))
			b.Expect(status.Failure).To(ContainSubstring(test.want))
			b.Expect(status.Message).To(ContainSubstring(test.want))
			b.Expect(status.Verdict).To(Equal(v1alpha1.LoadMissed))
			b.Expect(status.StartTime).To(BeNil(), "it has never started")
			b.Expect(b.namespaces(run)).To(BeEmpty())
		})
	}
}

// limit makes a quota in the namespace of a prepared run, and waits until it holds.
func (b *env) limit(run *v1alpha1.LoadTestRun, name corev1.ResourceName, most string) {
	b.T.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespaces(run)[0], Name: "small"}}
	quota.Spec.Hard = corev1.ResourceList{name: resource.MustParse(most)}
	b.ExpectApplied(quota)
	b.Eventually(func() (corev1.ResourceList, error) {
		return quota.Status.Hard, b.Client.Get(context.Background(), client.ObjectKeyFromObject(quota), quota)
	}).ShouldNot(BeEmpty())
}

// begin lets a prepared run start soon, and returns when.
func (b *env) begin(run *v1alpha1.LoadTestRun) time.Time {
	b.T.Helper()
	at := metav1.NewTime(time.Now().Add(2 * time.Second).Truncate(time.Second).Add(time.Second))
	patch, err := at.MarshalJSON()
	b.Expect(err).NotTo(HaveOccurred())
	b.merge(run, `{"spec":{"startTime":`+string(patch)+`}}`)
	return at.Time
}

func TestAQuotaIsHit(t *testing.T) {
	b := newEnv(t)
	run := b.create("quota", configMap, func(spec *v1alpha1.LoadTestRunSpec) {
		spec.WithStartTime = true
		none := int32(0)
		spec.Thresholds = []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadErrors, MaxPercent: &none}}
	}, creates(20))
	b.expectPhase(run, v1alpha1.LoadTestRunPhasePrepared)
	b.limit(run, "count/configmaps", "6")
	b.Consistently(b.status(run), time.Second).Should(HaveField("Phase", v1alpha1.LoadTestRunPhasePrepared), "the time has not come")
	begin := b.begin(run)
	status := b.expectEnded(run)
	b.Expect(status.StartTime.Time).To(BeTemporally(">=", begin), "not before the time")
	b.Expect(status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseCompleted), "all steps were done: %s", status.Message)
	b.Expect(status.Verdict).To(Equal(v1alpha1.LoadMissed))
	b.Expect(status.Errors).To(HaveLen(1))
	b.Expect(status.Errors[0]).To(And(HaveField("Reason", "Forbidden"), HaveField("Request", "POST configmaps"), HaveField("Message", ContainSubstring("exceeded quota"))))
	b.Expect(status.Errors[0].Count).To(And(Equal(status.Progress.Failed), BeNumerically(">=", 14)))
	b.Expect(status.Message).To(ContainSubstring("exceeded quota"))
}

// Claim: One run at a time, oldest first. Broken: the newest first.
func TestRunsTakeTurns(t *testing.T) {
	b := newEnv(t)
	first := b.create("first", configMap, nil, waits(4*time.Second))
	b.expectPhase(first, v1alpha1.LoadTestRunPhaseRunning)
	second := b.create("second", configMap, nil, creates(1))
	b.Eventually(b.status(second)).Should(HaveField("Message", ContainSubstring("waiting for load test run first")))
	b.Expect(second.Status.Phase).To(Equal(v1alpha1.LoadTestRunPhasePending))
	b.Expect(second.Finalizers).To(BeEmpty(), "it has made nothing")
	third := b.create("third", configMap, func(spec *v1alpha1.LoadTestRunSpec) { spec.Stopped = true }, creates(1))
	b.Expect(b.expectEnded(third)).To(And(HaveField("Phase", v1alpha1.LoadTestRunPhaseFailed), HaveField("Failure", ContainSubstring("stopped"))))
	b.Expect(b.expectEnded(first)).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted))
	b.Expect(b.expectEnded(second)).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted))
	b.Expect(second.Status.StartTime.Before(first.Status.EndTime)).To(BeFalse())
}

func TestWhatEndsARun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*v1alpha1.LoadTestRunSpec)
		end    func(*env, *v1alpha1.LoadTestRun)
		want   string
	}{
		"spec.stopped":    {nil, func(b *env, run *v1alpha1.LoadTestRun) { b.merge(run, `{"spec":{"stopped":true}}`) }, "stopped"},
		"the agent's end": {nil, func(b *env, _ *v1alpha1.LoadTestRun) { b.stop(); b.start() }, "the agent was restarted during the run"},
		"a timeout":       {func(spec *v1alpha1.LoadTestRunSpec) { spec.Timeout = metav1.Duration{Duration: 8 * time.Second} }, nil, "timeout: the steps did not finish within 8s"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			run := b.long(test.change)
			if test.end != nil {
				test.end(b, run)
			}
			status := b.expectEnded(run)
			b.Expect(status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseFailed))
			b.Expect(status.Failure).To(ContainSubstring(test.want))
			b.Expect(status.Verdict).To(Equal(v1alpha1.LoadMissed))
			b.Expect(status.EndTime).NotTo(BeNil())
			if name != "the agent's end" {
				b.Expect(measuredIn(status, v1alpha1.LoadAPIRequest, "POST")).To(BeEquivalentTo(5), "what was measured is kept")
			}
			b.Expect(b.namespaces(run)).To(BeEmpty())
		})
	}
}

func TestABreachEndsARun(t *testing.T) {
	b := newEnv(t)
	run := b.create("breach", configMap, func(spec *v1alpha1.LoadTestRunSpec) {
		spec.AbortOnBreach = true
		spec.Thresholds = []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadAPIRequest, Max: &metav1.Duration{Duration: time.Millisecond}}}
	}, creates(150), waits(time.Hour))
	b.Expect(b.expectEnded(run)).To(And(HaveField("Failure", ContainSubstring("thresholds[0] is crossed")), HaveField("Phase", v1alpha1.LoadTestRunPhaseFailed)))
}

// Claim: A freeze ends a run and keeps its objects. Broken: nothing ends it; what it made is removed while frozen.
func TestAFreezeEndsARunAndKeepsWhatItMadeUntilTheThaw(t *testing.T) {
	b := newEnv(t)
	run := b.long(nil)
	b.freeze(&freeze.Error{Reason: v1alpha1.ReasonHubUnreachable, Message: "no answer"})
	b.Eventually(b.status(run)).Should(And(HaveField("Phase", v1alpha1.LoadTestRunPhaseCleaningUp), HaveField("Message", ContainSubstring("when the agent is unfrozen"))))
	b.Expect(run.Status.Failure).To(Equal("frozen: HubUnreachable: no answer"))
	b.Expect(measuredIn(run.Status, v1alpha1.LoadAPIRequest, "POST")).To(BeEquivalentTo(5), "what was measured is kept")
	b.Expect(b.namespaces(run)).To(HaveLen(1))
	b.stop()
	b.start()
	b.Consistently(func() []string { return b.namespaces(run) }, 2*time.Second).Should(HaveLen(1), "an agent that is frozen removes nothing")
	b.freeze(nil)
	b.Expect(b.expectEnded(run)).To(And(HaveField("Phase", v1alpha1.LoadTestRunPhaseFailed), HaveField("Failure", HavePrefix("frozen"))))
	b.Expect(b.namespaces(run)).To(BeEmpty())
}

func TestAFrozenAgentBeginsNothing(t *testing.T) {
	b := newEnv(t)
	b.freeze(&freeze.Error{Reason: v1alpha1.ReasonManualFreeze, Message: "for a reason"})
	run := b.create("later", configMap, nil, creates(1))
	b.Eventually(b.status(run)).Should(HaveField("Message", ContainSubstring("for a reason")))
	b.Expect(run.Status.Phase).To(Equal(v1alpha1.LoadTestRunPhasePending))
	b.freeze(nil)
	b.Expect(b.expectEnded(run)).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted))
}

func TestADeletedRunLeavesNothing(t *testing.T) {
	b := newEnv(t)
	run := b.long(func(spec *v1alpha1.LoadTestRunSpec) { spec.CleanupPolicy = v1alpha1.LoadCleanupKeep })
	uid := run.UID
	b.ExpectDeleted(run)
	b.Eventually(func() bool {
		return apierrors.IsNotFound(b.Client.Get(context.Background(), client.ObjectKeyFromObject(run), run))
	}).Should(BeTrue(), "the finalizer goes")
	run.UID = uid
	b.Expect(b.namespaces(run)).To(BeEmpty())
}

// Claim: Only the run's namespaces are removed. Broken: every namespace with the label is removed; a run that has vanished is cleaned up. Also: TestARunThatVanishesEndsAndIsNotCleanedUp.
func TestOnlyWhatTheRunMadeIsRemoved(t *testing.T) {
	b := newEnv(t)
	run := b.create("keeper", configMap, func(spec *v1alpha1.LoadTestRunSpec) {
		spec.WithStartTime, spec.CleanupPolicy = true, v1alpha1.LoadCleanupKeep
	}, creates(1))
	b.expectPhase(run, v1alpha1.LoadTestRunPhasePrepared)
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceName(run, 1), Labels: map[string]string{v1alpha1.LoadTestRunUIDLabel: "another"}}}
	b.ExpectApplied(foreign)
	copied := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace + "-copied", Labels: map[string]string{v1alpha1.LoadTestRunUIDLabel: string(run.UID)}}}
	b.ExpectApplied(copied)
	b.merge(run, `{"spec":{"startTime":"2026-01-01T00:00:00Z"}}`)
	b.Expect(b.expectEnded(run)).To(And(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted), HaveField("Message", ContainSubstring("kept"))))
	b.Expect(b.namespaces(run)).To(HaveLen(2), "they are kept until the run is deleted")
	uid := run.UID
	b.ExpectDeleted(run)
	b.Eventually(func() bool {
		return apierrors.IsNotFound(b.Client.Get(context.Background(), client.ObjectKeyFromObject(run), run))
	}).Should(BeTrue())
	run.UID = uid
	b.Expect(b.namespaces(run)).To(Equal([]string{copied.Name}), "a label that was copied says nothing")
	b.ExpectExists(foreign)
	b.Expect(foreign.DeletionTimestamp).To(BeNil(), "it is another's")
}

func TestChurnKeepsTheNumberOfObjects(t *testing.T) {
	b := newEnv(t)
	churn := repeats(v1alpha1.LoadChurn, 2*time.Second)
	churn.ChurnPercent = 50
	run := b.create("churn", configMap, func(spec *v1alpha1.LoadTestRunSpec) { spec.CleanupPolicy = v1alpha1.LoadCleanupKeep }, creates(6), []v1alpha1.LoadPhase{churn})
	status := b.expectEnded(run)
	b.Expect(status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseCompleted), status.Message)
	deleted := measuredIn(status, v1alpha1.LoadAPIRequest, "DELETE")
	b.Expect(deleted).To(BeNumerically(">=", 10))
	b.Expect(measuredIn(status, v1alpha1.LoadAPIRequest, "POST")).To(Equal(deleted + 6))
	list := &corev1.ConfigMapList{}
	b.Expect(b.Client.List(t.Context(), list, client.InNamespace(namespaceName(run, 0)), client.MatchingLabels{v1alpha1.LoadTemplateLabel: "thing"})).To(Succeed())
	b.Expect(list.Items).To(HaveLen(6))
}

// Claim: Missing rights are named and block nobody. Broken: the rights are not looked at before the finalizer.
func TestAnAgentWithoutRightsSaysSo(t *testing.T) {
	b := newEnv(t)
	b.stop()
	restricted := rest.CopyConfig(b.Server.Config)
	restricted.Impersonate = rest.ImpersonationConfig{UserName: "nobody", Groups: []string{"system:authenticated"}}
	run := b.create("rights", configMap, nil, creates(1))
	b.startWith(restricted)
	b.Expect(b.expectEnded(run)).To(And(HaveField("Phase", v1alpha1.LoadTestRunPhaseFailed), HaveField("Failure", And(ContainSubstring("listing the namespaces"), ContainSubstring("config/rbac/agent-load-tests")))))
	b.Expect(run.Finalizers).To(BeEmpty(), "it could never be taken off")
	b.Expect(b.expectEnded(b.create("next", configMap, nil, creates(1)))).To(HaveField("Failure", ContainSubstring("config/rbac/agent-load-tests")), "it does not wait for the first")
}

// Creation times are whole seconds, and a run may be unreadable for a moment: an older one may turn up while a run continues.
// Claim: A run continues when an older one appears. Broken: the oldest is always the one that continues.
func TestARunGoesOnWhenAnOlderOneTurnsUp(t *testing.T) {
	b := newEnv(t)
	b.stop()
	hidden := atomic.Bool{}
	hidden.Store(true)
	b.refuse = func(request *http.Request) bool {
		return hidden.Load() && strings.HasSuffix(request.URL.Path, "/loadtestruns/a-older")
	}
	b.start()
	older := b.create("a-older", configMap, nil, creates(1))
	run := b.long(nil)
	hidden.Store(false)
	b.Eventually(b.status(older)).Should(HaveField("Message", ContainSubstring("waiting for load test run "+run.Name)))
	b.Expect(b.status(run)()).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseRunning))
	b.merge(run, `{"spec":{"stopped":true}}`)
	b.Expect(b.expectEnded(run)).To(HaveField("Failure", ContainSubstring("stopped")))
	b.Expect(b.expectEnded(older)).To(HaveField("Phase", v1alpha1.LoadTestRunPhaseCompleted))
}

func TestARunThatVanishesEndsAndIsNotCleanedUp(t *testing.T) {
	b := newEnv(t)
	run := b.long(nil)
	uid := run.UID
	b.merge(run, `{"metadata":{"finalizers":null}}`)
	b.ExpectDeleted(run)
	next := b.create("next", configMap, nil, creates(1))
	b.Expect(b.expectEnded(next).Phase).To(Equal(v1alpha1.LoadTestRunPhaseCompleted), "the one before has ended, because one runs at a time")
	run.UID = uid
	b.Expect(b.namespaces(run)).To(HaveLen(1), "that a run is not there is no order to remove anything")
}

func TestAnAgentThatStandsByWritesNothing(t *testing.T) {
	b := newEnv(t)
	b.freeze(&freeze.Error{Reason: v1alpha1.ReasonAnotherAgent, Message: "another agent works for the cluster"})
	run := b.create("others", configMap, nil, creates(1))
	version := run.ResourceVersion
	b.Consistently(func() (string, error) {
		err := b.Client.Get(context.Background(), client.ObjectKeyFromObject(run), run)
		return run.ResourceVersion, err
	}, 2*time.Second).Should(Equal(version), "it is the other agent's")
}
