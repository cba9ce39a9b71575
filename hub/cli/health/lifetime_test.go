package health

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func since(d time.Duration) *metav1.Time { return new(ago(d)) }

func minutes(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Minute} }

// loadRun is a run with a timeout of 20 minutes and one phase of five.
func loadRun(phase v1alpha1.LoadTestRunPhase, change func(*v1alpha1.LoadTestRun)) *v1alpha1.LoadTestRun {
	run := &v1alpha1.LoadTestRun{ObjectMeta: objectMeta("load"), Status: v1alpha1.LoadTestRunStatus{Phase: phase, Message: "what the agent says", Conditions: []metav1.Condition{
		is(v1alpha1.ReadyCondition, metav1.ConditionFalse, "Running"),
	}}}
	run.CreationTimestamp = ago(3 * time.Hour)
	run.Spec.Timeout = minutes(20)
	run.Spec.Steps = []v1alpha1.LoadStep{{Name: "a", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: new(minutes(5))}}}}
	if change != nil {
		change(run)
	}
	return run
}

func statusWritten(at metav1.Time) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: "agent", Subresource: "status", Time: &at}, {Manager: "hub", Time: since(0)}, {Manager: "old", Subresource: "status"}}
}

// runOf is a run of the disruption that lasts ten minutes and starts after five.
func runOf(phase v1alpha1.NodeDisruptionRunPhase, created time.Duration, started *metav1.Time) *v1alpha1.NodeDisruptionRun {
	run := &v1alpha1.NodeDisruptionRun{ObjectMeta: objectMeta("outage"), Status: v1alpha1.NodeDisruptionRunStatus{Phase: phase, Message: "x", StartTime: started, Conditions: []metav1.Condition{ready}}}
	run.CreationTimestamp = ago(created)
	run.Spec.Timing = v1alpha1.DisruptionTiming{StartAfter: minutes(5), Duration: minutes(10)}
	return run
}

func timed(phase v1alpha1.NodeDisruptionRunPhase, created time.Duration, change func(*v1alpha1.NodeDisruption)) *v1alpha1.NodeDisruption {
	d := disruption(phase, false)
	d.CreationTimestamp = ago(created)
	d.Spec.Timing = v1alpha1.DisruptionTiming{StartAfter: minutes(5), Duration: minutes(10)}
	if change != nil {
		change(d)
	}
	return d
}

// What has a time of its own is a problem once that is over, and not before.
// Claim: `status` names load tests and disruptions that take too long. Broken: no bound, silent agents and a status that stays as it is not looked at: 20 of its cases fail.
// Edge case: Load tests hung in progress forever.
func TestWhatTakesLongerThanItsSpecAllowsIsAProblem(t *testing.T) {
	type loadTests = func(*v1alpha1.LoadTest)
	started := func(d time.Duration) loadTests {
		return func(o *v1alpha1.LoadTest) { o.Status.StartTime = since(d) }
	}
	inline := func(d time.Duration) loadTests {
		return func(o *v1alpha1.LoadTest) {
			o.Spec.Load, o.Status.StartTime = &v1alpha1.Load{Timeout: minutes(20)}, since(d)
		}
	}
	for name, c := range map[string]struct {
		object client.Object
		state  State
		reason string
		next   string
	}{
		"a test within its timeout": {change(loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), inline(24*time.Minute)), InProgress, "Running", ""},
		"a test past its timeout":   {change(loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), inline(26*time.Minute)), Problem, ReasonTakesLong + ": Running", "kubectl hollow loadtest stop load"},
		"one that was stopped": {
			change(change(loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), inline(26*time.Minute)), func(o *v1alpha1.LoadTest) { o.Spec.Stopped = true }),
			Problem, ReasonTakesLong + ": Running", "kubectl get loadtestruns -A -l hollowfleet.io/load-test-name=load",
		},
		"a preset within the timeout of its runs": {change(change(loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), started(34*time.Minute)), func(o *v1alpha1.LoadTest) { o.UID = "known" }), InProgress, "Running", ""},
		"a preset past the timeout of its runs":   {change(change(loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), started(36*time.Minute)), func(o *v1alpha1.LoadTest) { o.UID = "known" }), Problem, ReasonTakesLong + ": Running", ""},
		"a preset whose runs are not known":       {change(loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), started(23*time.Hour)), InProgress, "Running", ""},
		"the same after a day":                    {change(loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), started(25*time.Hour)), Problem, ReasonTakesLong + ": Running", ""},
		"a test without a time of its beginning":  {change(loadTest(v1alpha1.LoadTestPhaseRunning, "", 0), func(o *v1alpha1.LoadTest) { o.CreationTimestamp = ago(25 * time.Hour) }), Problem, ReasonTakesLong + ": Running", ""},
		"a test that cleans up":                   {change(loadTest(v1alpha1.LoadTestPhaseCleaningUp, "", 0), func(o *v1alpha1.LoadTest) { o.Status.EndTime = since(14 * time.Minute) }), InProgress, "CleaningUp", ""},
		"a test whose removal is stuck":           {change(loadTest(v1alpha1.LoadTestPhaseCleaningUp, "", 0), func(o *v1alpha1.LoadTest) { o.Status.EndTime = since(16 * time.Minute) }), Problem, ReasonTakesLong + ": CleaningUp", "kubectl get loadtestruns -A -l hollowfleet.io/load-test-name=load"},
		"a test that may prepare for an hour": {
			change(loadTest(v1alpha1.LoadTestPhasePreparing, "", 0), func(o *v1alpha1.LoadTest) {
				o.Spec.PrepareTimeout, o.Status.PrepareTime, o.UID = minutes(60), since(50*time.Minute), "known" // The time of its runs is that of the load.
			}), InProgress, "Preparing", "",
		},

		"a run within its timeout":         {loadRun(v1alpha1.LoadTestRunPhaseRunning, func(r *v1alpha1.LoadTestRun) { r.Status.StartTime = since(24 * time.Minute) }), InProgress, "Running", ""},
		"a run past its timeout":           {loadRun(v1alpha1.LoadTestRunPhaseRunning, func(r *v1alpha1.LoadTestRun) { r.Status.StartTime = since(26 * time.Minute) }), Problem, ReasonTakesLong + ": Running", ""},
		"a run whose removal is stuck":     {loadRun(v1alpha1.LoadTestRunPhaseCleaningUp, func(r *v1alpha1.LoadTestRun) { r.Status.EndTime = since(time.Hour) }), Problem, ReasonTakesLong + ": CleaningUp", ""},
		"a run that is removing":           {loadRun(v1alpha1.LoadTestRunPhaseCleaningUp, func(r *v1alpha1.LoadTestRun) { r.Status.EndTime = since(time.Minute) }), InProgress, "CleaningUp", ""},
		"a run that nobody starts":         {loadRun(v1alpha1.LoadTestRunPhasePrepared, nil), Problem, ReasonTakesLong + ": Prepared", ""},
		"a run that was prepared now":      {loadRun(v1alpha1.LoadTestRunPhasePrepared, func(r *v1alpha1.LoadTestRun) { r.CreationTimestamp = ago(time.Minute) }), InProgress, "Prepared", ""},
		"a run that should have started":   {loadRun(v1alpha1.LoadTestRunPhasePrepared, func(r *v1alpha1.LoadTestRun) { r.Spec.StartTime = since(6 * time.Minute) }), Problem, ReasonTakesLong + ": Prepared", ""},
		"a run that stays pending":         {loadRun(v1alpha1.LoadTestRunPhasePending, nil), Problem, ReasonTakesLong + ": Pending", ""},
		"a run that is prepared for hours": {loadRun(v1alpha1.LoadTestRunPhasePreparing, nil), Problem, ReasonTakesLong + ": Preparing", ""},
		"a run that waits for its start, quietly": {loadRun(v1alpha1.LoadTestRunPhasePrepared, func(r *v1alpha1.LoadTestRun) {
			r.Spec.StartTime, r.ManagedFields = new(metav1.NewTime(now.Add(time.Hour))), statusWritten(ago(16*time.Minute))
		}), InProgress, "Prepared", ""},
		"a run that was just created": {loadRun(v1alpha1.LoadTestRunPhasePending, func(r *v1alpha1.LoadTestRun) {
			r.CreationTimestamp = ago(time.Second)
			r.Status.Conditions[0].LastTransitionTime = metav1.Unix(0, 0)
		}), InProgress, "Pending", ""},
		"a run of a silent agent":     {loadRun(v1alpha1.LoadTestRunPhaseRunning, func(r *v1alpha1.LoadTestRun) { r.Namespace, r.Status.StartTime = "silent", since(time.Minute) }), Problem, v1alpha1.ReasonAgentSilent, "kubectl hollow cluster list silent -o wide"},
		"one that it has not removed": {loadRun(v1alpha1.LoadTestRunPhaseCleaningUp, func(r *v1alpha1.LoadTestRun) { r.Namespace, r.Status.EndTime = "silent", since(time.Minute) }), Problem, v1alpha1.ReasonAgentSilent, ""},
		"one that was over before":    {loadRun(v1alpha1.LoadTestRunPhaseCompleted, func(r *v1alpha1.LoadTestRun) { r.Namespace, r.Status.Conditions = "silent", []metav1.Condition{ready} }), Healthy, "", ""},
		"a run that does not get on": {loadRun(v1alpha1.LoadTestRunPhaseRunning, func(r *v1alpha1.LoadTestRun) {
			r.Status.StartTime, r.ManagedFields = since(18*time.Minute), statusWritten(ago(16*time.Minute))
		}), Problem, ReasonNoProgress, ""},
		"a run that waits as it should": {loadRun(v1alpha1.LoadTestRunPhaseRunning, func(r *v1alpha1.LoadTestRun) {
			r.Status.StartTime, r.ManagedFields = since(18*time.Minute), statusWritten(ago(14*time.Minute))
		}), InProgress, "Running", ""},

		"a disruption within its time": {timed(v1alpha1.NodeDisruptionRunning, time.Hour, func(d *v1alpha1.NodeDisruption) { d.Status.LastScheduleTime = since(19 * time.Minute) }), InProgress, "Running", ""},
		"a disruption past its end":    {timed(v1alpha1.NodeDisruptionRunning, time.Hour, func(d *v1alpha1.NodeDisruption) { d.Status.LastScheduleTime = since(21 * time.Minute) }), Problem, ReasonTakesLong + ": Running", "kubectl hollow disrupt stop outage"},
		"one that does not start":      {timed(v1alpha1.NodeDisruptionPending, 11*time.Minute, nil), Problem, ReasonTakesLong + ": Pending", ""},
		"one that starts later":        {timed(v1alpha1.NodeDisruptionPending, 9*time.Minute, nil), Waiting, "Pending", ""},
		"a dry run":                    {timed(v1alpha1.NodeDisruptionPending, time.Hour, func(d *v1alpha1.NodeDisruption) { d.Spec.DryRun = true }), Waiting, "Pending", ""},
		"a schedule": {timed(v1alpha1.NodeDisruptionPending, time.Hour, func(d *v1alpha1.NodeDisruption) {
			d.Spec.Schedule, d.Status.NextScheduleTime = "0 3 * * *", new(metav1.NewTime(now.Add(time.Hour)))
		}), Waiting, "Pending", ""},
		"a schedule that the hub has just read": {timed(v1alpha1.NodeDisruptionPending, time.Hour, func(d *v1alpha1.NodeDisruption) { d.Spec.Schedule = "0 3 * * *" }), Waiting, "Pending", ""},
		"a scheduled one whose runs do not start": {timed(v1alpha1.NodeDisruptionPending, time.Hour, func(d *v1alpha1.NodeDisruption) {
			d.Spec.Schedule, d.Status.Clusters, d.Status.LastScheduleTime = "0 3 * * *", 1, since(11*time.Minute)
		}), Problem, ReasonTakesLong + ": Pending", ""},
		"a schedule that is missed": {timed(v1alpha1.NodeDisruptionPending, time.Hour, func(d *v1alpha1.NodeDisruption) {
			d.Spec.Schedule, d.Status.NextScheduleTime = "0 3 * * *", since(10*time.Minute)
		}), Problem, ReasonTakesLong + ": Pending", ""},

		"a disrupted cluster":          {runOf(v1alpha1.NodeDisruptionRunning, time.Hour, since(14*time.Minute)), InProgress, "Running", ""},
		"one that is not restored":     {runOf(v1alpha1.NodeDisruptionRunning, time.Hour, since(16*time.Minute)), Problem, ReasonTakesLong + ": Running", ""},
		"a run that does not start":    {runOf(v1alpha1.NodeDisruptionPending, 11*time.Minute, nil), Problem, ReasonTakesLong + ": Pending", ""},
		"a run that starts later":      {runOf(v1alpha1.NodeDisruptionPending, 9*time.Minute, nil), Waiting, "Pending", ""},
		"one whose agent is silent":    {change(runOf(v1alpha1.NodeDisruptionRunning, time.Hour, since(time.Minute)), func(r *v1alpha1.NodeDisruptionRun) { r.Namespace = "silent" }), Problem, v1alpha1.ReasonAgentSilent, ""},
		"one that was over before it":  {change(runOf(v1alpha1.NodeDisruptionCompleted, time.Hour, since(time.Hour)), func(r *v1alpha1.NodeDisruptionRun) { r.Namespace = "silent" }), Healthy, "", ""},
		"one that starts with it gone": {change(runOf(v1alpha1.NodeDisruptionPending, time.Minute, nil), func(r *v1alpha1.NodeDisruptionRun) { r.Namespace = "silent" }), Problem, v1alpha1.ReasonAgentSilent, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			judge := &Judge{Now: now}
			silent := cluster(ready, is(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, v1alpha1.ReasonAgentSilent))
			silent.Name = "silent"
			judge.Observe(&v1alpha1.ClusterList{Items: []v1alpha1.Cluster{*cluster(ready, is(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, "Connected")), *silent}})
			run := loadRun(v1alpha1.LoadTestRunPhaseRunning, nil)
			run.Spec.Timeout = minutes(30)
			run.OwnerReferences = []metav1.OwnerReference{{Kind: LoadTest, UID: "known", Controller: new(true)}}
			judge.Observe(&v1alpha1.LoadTestRunList{Items: []v1alpha1.LoadTestRun{*run}})
			s := subjectOf(c.object)
			found := judge.judgeSubject(s)
			g.Expect(found.state).To(Equal(c.state), found.reason+": "+found.message)
			g.Expect(found.reason).To(Equal(c.reason))
			g.Expect(nextCommand(s, found)).To(ContainSubstring(c.next))
			if c.state == Problem {
				g.Expect(found.message).NotTo(BeEmpty())
				g.Expect(nextCommand(s, found)).To(HavePrefix("kubectl "))
			}
		})
	}
}

// What has no time of its own is as it is since its condition says so.
func TestADryRunWaitsSinceItsConditionSaysSo(t *testing.T) {
	NewWithT(t).Expect(judged(timed(v1alpha1.NodeDisruptionPending, time.Hour, func(d *v1alpha1.NodeDisruption) { d.Spec.DryRun = true })).since).To(Equal(ago(time.Minute)))
}
