package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest/preset"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

var (
	begin    = time.Date(2026, 11, 26, 10, 0, 30, 0, time.UTC)
	podReady = loadtest.Key{Measurement: v1alpha1.LoadPodReady}
)

// world has a load test of the preset pod-startup and so many clusters, c00 and following, which are well and have ten Nodes.
func world(clusters int) *World {
	w := &World{Now: begin, Test: &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: "rush", UID: "u", CreationTimestamp: metav1.NewTime(begin)}}}
	w.Test.Spec.ClusterSelector, w.Test.Spec.Preset = &metav1.LabelSelector{}, &v1alpha1.LoadPreset{Name: preset.PodStartup}
	w.Test.Spec.PrepareTimeout.Duration = time.Minute
	w.Test.Status.Phase = v1alpha1.LoadTestPhasePending
	for i := range clusters {
		cluster := v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%02d", i), Labels: map[string]string{"i": fmt.Sprint(i)}}}
		cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
		cluster.Status.Machines = &v1alpha1.MachineCounts{Total: 10, Ready: 10}
		cluster.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ClusterAcceptedCondition, Status: metav1.ConditionTrue}, {Type: v1alpha1.FrozenCondition, Status: metav1.ConditionFalse},
			{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue},
		}
		w.Clusters = append(w.Clusters, cluster)
	}
	slices.SortFunc(w.Clusters, func(a, b v1alpha1.Cluster) int { return strings.Compare(a.Name, b.Name) }) // c100 is before c11.
	return w
}

// step decides, and lets the world be as decided.
func (w *World) step() Decision {
	d := Decide(w)
	if d.Merge {
		merged := loadtest.NewMerged()
		for i := range w.Runs {
			merged.Add(&w.Runs[i])
		}
		d.End(w, merged)
	}
	w.Test.Status = d.Status
	for _, run := range d.Start {
		run.Spec.StartTime = d.Status.StartTime.DeepCopy()
	}
	for _, run := range d.Stop {
		run.Spec.Stopped = true
	}
	for _, run := range d.Restore {
		run.Spec.Paused = true
	}
	for _, run := range d.Create {
		run.UID, run.Status.Phase = types.UID(run.Namespace), v1alpha1.LoadTestRunPhasePending
		w.Runs = append(w.Runs, run)
	}
	w.Disruptions = append(w.Disruptions, d.Disrupt...)
	return d
}

// say lets the agents of all runs that are not over report.
func (w *World) say(change func(*v1alpha1.LoadTestRunStatus)) {
	for i := range w.Runs {
		if !isOver(&w.Runs[i]) {
			change(&w.Runs[i].Status)
		}
	}
}

func phase(phase v1alpha1.LoadTestRunPhase) func(*v1alpha1.LoadTestRunStatus) {
	return func(status *v1alpha1.LoadTestRunStatus) { status.Phase = phase }
}

// completed is what an agent reports at last.
func completed(verdict v1alpha1.LoadVerdict, ready ...time.Duration) func(*v1alpha1.LoadTestRunStatus) {
	return func(status *v1alpha1.LoadTestRunStatus) {
		measured := loadtest.Measurements{}
		for _, one := range ready {
			measured.Record(podReady, one, 1)
			measured.Record(loadtest.Key{Measurement: v1alpha1.LoadAPIRequest, Verb: "POST", Resource: "pods"}, one/10, 1)
		}
		status.Histograms, _, _ = measured.Encode()
		status.Phase, status.Verdict, status.EndTime = v1alpha1.LoadTestRunPhaseCompleted, verdict, &metav1.Time{Time: begin.Add(30 * time.Second)}
		status.Progress = v1alpha1.LoadProgress{Steps: 2, StepsTotal: 2, Requests: int64(len(ready)), PodsCreated: int64(len(ready)), PodsReady: int64(len(ready))}
	}
}

func (w *World) names() (names []string) {
	for _, run := range w.Runs {
		names = append(names, run.Namespace+"/"+run.Name)
	}
	return names
}

// started is a world whose runs have just started.
func begun(clusters int, change func(*v1alpha1.LoadTestSpec)) *World {
	w := world(clusters)
	if change != nil {
		change(&w.Test.Spec)
	}
	w.step()
	w.step()
	w.say(phase(v1alpha1.LoadTestRunPhasePrepared))
	w.step()
	w.say(phase(v1alpha1.LoadTestRunPhaseRunning))
	w.step()
	return w
}

func TestRunsBeginTogetherWhenAllArePrepared(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.Test.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "i", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"1"}}}
	w.step()
	g.Expect(w.names()).To(ConsistOf("c00/rush", "c02/rush"))
	g.Expect(w.Runs[0]).To(And(HaveField("Spec.WithStartTime", true), HaveField("Labels", HaveKeyWithValue(v1alpha1.LoadTestNameLabel, "rush")),
		HaveField("OwnerReferences", ConsistOf(And(HaveField("Kind", "LoadTest"), HaveField("UID", BeEquivalentTo("u")))))))
	g.Expect(w.Test.Status.Phase).To(Equal(v1alpha1.LoadTestPhasePending), "runs that were made are seen first")
	w.step()
	g.Expect(w.Test.Status.Phase).To(Equal(v1alpha1.LoadTestPhasePreparing))
	w.Clusters = append(w.Clusters, world(4).Clusters[3])
	w.Runs[0].Status.Phase = v1alpha1.LoadTestRunPhasePrepared
	d := w.step()
	g.Expect(d.Start).To(BeEmpty())
	g.Expect(d.Next).To(Equal(begin.Add(time.Minute)))
	g.Expect(w.Test.Status).To(And(HaveField("Prepared", BeEquivalentTo(1)), HaveField("Message", "1 of 2 runs are prepared")))
	w.Now = begin.Add(20*time.Second + 300*time.Millisecond)
	w.say(phase(v1alpha1.LoadTestRunPhasePrepared))
	g.Expect(w.step().Start).To(HaveLen(2), "a cluster that comes later is not loaded")
	at := metav1.NewTime(begin.Add(23 * time.Second))
	g.Expect(w.Runs).To(HaveEach(HaveField("Spec.StartTime", &at)))
	g.Expect(w.Test.Status).To(And(HaveField("StartTime", &at), HaveField("Phase", v1alpha1.LoadTestPhaseRunning)))
	w.say(phase(v1alpha1.LoadTestRunPhaseRunning))
	w.say(func(status *v1alpha1.LoadTestRunStatus) {
		status.Progress = v1alpha1.LoadProgress{Step: "create", Steps: 1, StepsTotal: 2, Requests: 10, Failed: 1}
	})
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Verdict", BeEmpty()), HaveField("Results", BeEmpty()),
		HaveField("Progress", v1alpha1.LoadProgress{Step: "create", Steps: 2, StepsTotal: 4, Requests: 20, Failed: 2})))
	w.say(completed(v1alpha1.LoadPassed, time.Second, 2*time.Second))
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseCompleted), HaveField("Verdict", v1alpha1.LoadPassed), HaveField("Completed", BeEquivalentTo(2)),
		HaveField("EndTime.Time", begin.Add(30*time.Second)), HaveField("Message", "2 of 2 clusters were loaded in full, all 3 thresholds are met")))
	g.Expect(w.Test.Status.Conditions).To(ConsistOf(And(HaveField("Type", "Ready"), HaveField("Status", metav1.ConditionTrue))))
	before := w.Test.Status
	w.Now = w.Now.Add(24 * time.Hour)
	w.step()
	g.Expect(w.Test.Status).To(Equal(before))
}

func TestClustersInWhichNothingMayBeginAreNamed(t *testing.T) {
	g := NewWithT(t)
	w := world(6)
	w.Clusters[0].Annotations = map[string]string{v1alpha1.FreezeAnnotation: "a test"}
	w.Clusters[1].Status.Conditions[2] = metav1.Condition{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionUnknown, Message: "its Lease is old"}
	w.Clusters[2].Status.Machines = nil
	w.Clusters[3].Spec.Acceptance = v1alpha1.AcceptancePending
	w.Runs = []v1alpha1.LoadTestRun{{ObjectMeta: metav1.ObjectMeta{Namespace: "c04", Name: "rush"}}}
	w.step()
	w.step()
	g.Expect(w.names()).To(ConsistOf("c04/rush", "c05/rush"))
	g.Expect(w.Test.Status.Failures).To(HaveExactElements(
		HaveField("Message", ContainSubstring("is frozen")), HaveField("Message", "left out: the agent of Cluster c01 is not connected: its Lease is old"),
		HaveField("Message", ContainSubstring("run on hollow Nodes only, and none is Ready")),
		HaveField("Message", ContainSubstring("another LoadTestRun has the name rush: delete one of the two"))))
	g.Expect(w.Test.Status).To(And(HaveField("Clusters", BeEquivalentTo(5)), HaveField("Failed", BeEquivalentTo(4))), "one that is not accepted does not count")
	w.Runs[1].Status.Phase = v1alpha1.LoadTestRunPhasePrepared
	w.step()
	completed(v1alpha1.LoadPassed, time.Second)(&w.Runs[1].Status)
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseCompleted), HaveField("Verdict", v1alpha1.LoadMissed), HaveField("Partial", true),
		HaveField("Completed", BeEquivalentTo(1)), HaveField("Failed", BeEquivalentTo(4)), HaveField("Failures", HaveLen(4))))
	g.Expect(w.Runs[0].Spec.Stopped).To(BeFalse(), "another's run is left alone")
}

func TestWhatCannotBeBegunSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*World)
		says   string
	}{
		"an unknown preset":   {func(w *World) { w.Test.Spec.Preset.Name = "pods" }, `unknown preset "pods": want one of api-mix, density, node-churn, pod-startup`},
		"two numbers of pods": {func(w *World) { w.Test.Spec.Preset.Pods, w.Test.Spec.Preset.PodsPerNode = 1, 1 }, "set one of them"},
		"no cluster":          {func(w *World) { w.Clusters = nil }, "no accepted Cluster is selected"},
		"a selector that is none": {func(w *World) {
			w.Test.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "i", Operator: "Is"}}
		}, "spec.clusterSelector"},
		"all are frozen":               {func(w *World) { w.Clusters[0].Annotations = map[string]string{v1alpha1.FreezeAnnotation: "x"} }, "could not be started in any of 1 clusters"},
		"it is stopped":                {func(w *World) { w.Test.Spec.Stopped = true }, "stopped before it had started"},
		"too many pods in a namespace": {func(w *World) { w.Test.Spec.Preset.Pods = 20_000 }, "could not be started in any"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(1)
			c.change(w)
			w.step()
			NewWithT(t).Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseFailed), HaveField("Message", ContainSubstring(c.says))))
			NewWithT(t).Expect(w.Test.Status.Conditions).To(ContainElement(And(HaveField("Type", "Stalled"), HaveField("Status", metav1.ConditionTrue))))
			NewWithT(t).Expect(w.Runs).To(BeEmpty())
		})
	}
}

func TestAPlacementChooses(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.Test.Spec.ClusterSelector, w.Test.Spec.PlacementRef = nil, &v1alpha1.PlacementReference{Namespace: "n", Name: "p"}
	w.Placed.Unknown = &outcome.Wait{Message: "there is none"}
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhasePending), HaveField("Message", "there is none"), HaveField("PrepareTime", BeNil())))
	w.Placed = placement.Placed{Groups: map[string]string{"c01": "canary", "gone": ""}, Incomplete: true}
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhasePending), HaveField("Message", ContainSubstring("not complete yet")), HaveField("PrepareTime", BeNil())))
	w.Placed.Incomplete = false
	w.step()
	g.Expect(w.names()).To(ConsistOf("c01/rush"))
}

func TestTheTestBeginsWithoutThoseThatAreNotPreparedInTime(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.step()
	w.step()
	w.say(phase(v1alpha1.LoadTestRunPhasePrepared))
	w.Runs[1].Status.Phase, w.Runs[1].Status.Message = v1alpha1.LoadTestRunPhasePending, "another run is in progress"
	w.Clusters[2].Annotations = map[string]string{v1alpha1.FreezeAnnotation: "a test"}
	w.Now = begin.Add(59 * time.Second)
	g.Expect(w.step().Start).To(BeEmpty())
	w.Now = begin.Add(time.Minute)
	w.step()
	g.Expect(w.Runs[0].Spec.StartTime).NotTo(BeNil())
	g.Expect(w.Runs[1:]).To(HaveEach(And(HaveField("Spec.StartTime", BeNil()), HaveField("Spec.Stopped", true))))
	g.Expect(w.Test.Status.Failures).To(HaveExactElements(
		HaveField("Message", "it was not prepared when the test started: another run is in progress"), HaveField("Message", ContainSubstring("frozen"))))
	completed(v1alpha1.LoadPassed, time.Second)(&w.Runs[0].Status)
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseCompleted), HaveField("Failed", BeEquivalentTo(2)), HaveField("Verdict", v1alpha1.LoadMissed)), "those that were stopped are not waited for")

	w = world(2)
	w.step()
	w.step()
	w.Now = begin.Add(time.Minute)
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseFailed), HaveField("Failed", BeEquivalentTo(2)), HaveField("Failures", HaveLen(2))))
	g.Expect(w.Runs).To(HaveEach(HaveField("Spec.Stopped", true)))
}

// A hub that was interrupted between two runs gives the second the time of the first, or leaves it out if that is long past.
func TestAnInterruptedBeginningIsFinished(t *testing.T) {
	for late, starts := range map[time.Duration]bool{2 * time.Second: true, 2 * time.Minute: false} {
		g := NewWithT(t)
		w := world(2)
		w.step()
		w.step()
		w.say(phase(v1alpha1.LoadTestRunPhasePrepared))
		first := metav1.NewTime(begin.Add(5 * time.Second))
		w.Runs[0].Spec.StartTime = &first
		w.Now = first.Add(late)
		w.step()
		g.Expect(w.Test.Status.StartTime.Time).To(Equal(first.Time))
		if starts {
			g.Expect(w.Runs[1].Spec.StartTime.Time).To(Equal(first.Time))
		} else {
			g.Expect(w.Runs[1].Spec).To(And(HaveField("StartTime", BeNil()), HaveField("Stopped", true)))
		}
	}
}
