package disruption

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

var begin = time.Date(2026, 11, 26, 10, 0, 30, 0, time.UTC)

// world has a disruption and so many clusters, c00 and following, which are well.
func world(clusters int) *World {
	w := &World{Now: begin, Disruption: &v1alpha1.NodeDisruption{ObjectMeta: metav1.ObjectMeta{Name: "outage", UID: "u", CreationTimestamp: metav1.NewTime(begin)}}}
	w.Disruption.Spec.ClusterSelector, w.Disruption.Spec.Faults = &metav1.LabelSelector{}, []disrupt.Fault{{Type: disrupt.NotReady}}
	w.Disruption.Spec.Timing.Duration = metav1.Duration{Duration: time.Minute}
	for i := range clusters {
		cluster := v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%02d", i), Labels: map[string]string{"i": fmt.Sprint(i)}}}
		cluster.Spec.Acceptance = v1alpha1.AcceptanceAccepted
		cluster.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ClusterAcceptedCondition, Status: metav1.ConditionTrue}, {Type: v1alpha1.FrozenCondition, Status: metav1.ConditionFalse},
			{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionTrue},
		}
		w.Clusters = append(w.Clusters, cluster)
	}
	return w
}

// work decides, and lets the world be as decided.
func (w *World) work() Decision {
	d := Decide(w)
	w.Disruption.Status = d.Status
	for _, run := range d.Create {
		run.UID, run.Status.Phase = types.UID(run.Namespace+run.Name), v1alpha1.NodeDisruptionPending
		w.Runs = append(w.Runs, run)
	}
	for _, changed := range append(d.Pause, d.Resume...) {
		for i := range w.Runs {
			if w.Runs[i].UID == changed.UID {
				w.Runs[i].Spec.Paused = !w.Runs[i].Spec.Paused
			}
		}
	}
	for _, deleted := range d.Delete {
		for i := range w.Runs {
			if w.Runs[i].UID == deleted.UID {
				w.Runs = append(w.Runs[:i:i], w.Runs[i+1:]...)
				break
			}
		}
	}
	return d
}

// end lets all runs be over.
func (w *World) end() {
	for i := range w.Runs {
		w.Runs[i].Status.Phase = v1alpha1.NodeDisruptionCompleted
	}
}

func (w *World) names() []string {
	var names []string
	for _, run := range w.Runs {
		names = append(names, run.Namespace+"/"+run.Name)
	}
	return names
}

func TestEachChosenClusterGetsOneRunOnce(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.Disruption.Spec.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "i", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"1"}}}
	w.work()
	g.Expect(w.names()).To(ConsistOf("c00/outage", "c02/outage"))
	g.Expect(w.Runs[0].OwnerReferences).To(ConsistOf(And(HaveField("Kind", "NodeDisruption"), HaveField("UID", BeEquivalentTo("u")))))
	w.Clusters = append(w.Clusters, world(4).Clusters[3])
	w.work()
	g.Expect(w.Runs).To(HaveLen(2), "one that comes later is not disrupted")
	w.Runs[0].Status = v1alpha1.NodeDisruptionRunStatus{Phase: v1alpha1.NodeDisruptionRunning, Selected: 3, Injected: 2, Observed: 1}
	w.work()
	g.Expect(w.Disruption.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Clusters", BeEquivalentTo(2)), HaveField("Selected", BeEquivalentTo(3)), HaveField("Injected", BeEquivalentTo(2))))
	w.end()
	w.work()
	g.Expect(w.Disruption.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Completed", BeEquivalentTo(2))))
	g.Expect(w.Disruption.Status.Conditions).To(ConsistOf(And(HaveField("Type", "Ready"), HaveField("Status", metav1.ConditionTrue))))
	w.Now = w.Now.Add(24 * time.Hour)
	w.work()
	g.Expect(w.Runs).To(HaveLen(2))
}

// Claim: A disruption's clusters are its Placement's when its runs start. Broken: runs start in the clusters of incomplete decisions; an unknown Placement fails the disruption.
func TestAPlacementChooses(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.Disruption.Spec.ClusterSelector, w.Disruption.Spec.PlacementRef = nil, &v1alpha1.PlacementReference{Namespace: "n", Name: "p"}
	w.Clusters[2].Spec.Acceptance = v1alpha1.AcceptancePending
	w.Placed.Unknown = &outcome.Wait{Message: "there is none"}
	w.work()
	g.Expect(w.Disruption.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionPending), HaveField("Message", "there is none"), HaveField("LastScheduleTime", BeNil())))
	w.Placed = placement.Placed{Groups: map[string]string{"c01": "canary", "c02": "", "gone": ""}, Incomplete: true}
	w.work()
	g.Expect(w.Disruption.Status.Message).To(ContainSubstring("not complete yet"))
	g.Expect(w.Runs).To(BeEmpty())
	w.Placed.Incomplete = false
	w.work()
	g.Expect(w.names()).To(ConsistOf("c01/outage"), "one is not accepted, one is gone")
	w.Placed = placement.Placed{Groups: map[string]string{"c00": ""}}
	w.work()
	g.Expect(w.names()).To(ConsistOf("c01/outage"), "clusters are chosen when runs start")
	w.Placed.Unknown, w.Disruption.Spec.Paused = &outcome.Wait{Message: "the Placement was deleted"}, true
	w.work()
	g.Expect(w.Runs[0].Spec.Paused).To(BeTrue(), "that nothing is known of the Placement keeps no Node broken")
}

// While the Placement is not known, a time of the schedule passes without runs, and the next one has them again.
func TestAScheduleOutlivesItsPlacement(t *testing.T) {
	g := NewWithT(t)
	w := world(2)
	w.Disruption.Spec.ClusterSelector, w.Disruption.Spec.PlacementRef = nil, &v1alpha1.PlacementReference{Namespace: "n", Name: "p"}
	w.Disruption.Spec.Schedule = "0 * * * *"
	w.Placed.Unknown = &outcome.Wait{Message: "there is none"}
	w.Now = begin.Truncate(time.Hour).Add(time.Hour)
	w.work()
	g.Expect(w.Disruption.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionPending), HaveField("Message", "there is none")))
	w.Now = w.Now.Add(2 * lateStart)
	d := w.work()
	g.Expect(w.Runs).To(BeEmpty())
	g.Expect(d.Next).To(Equal(begin.Truncate(time.Hour).Add(2 * time.Hour)))
	w.Now, w.Placed = d.Next, placement.Placed{Groups: map[string]string{"c00": ""}}
	w.work()
	g.Expect(w.Runs).To(ConsistOf(HaveField("Namespace", "c00")))
}

// Edge case: A stored disruption without a selection chooses no cluster.
func TestADisruptionWithoutAChoiceHitsNothing(t *testing.T) {
	g := NewWithT(t)
	w := world(2)
	w.Disruption.Spec.ClusterSelector = nil
	w.work()
	g.Expect(w.Runs).To(BeEmpty())
	g.Expect(w.Disruption.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionFailed), HaveField("Message", ContainSubstring("exactly one of clusterSelector and placementRef"))))
}

// Claim: A frozen cluster is left out and named. Broken: the freeze is not asked for.
func TestAFrozenClusterIsLeftOutAndNamed(t *testing.T) {
	g := NewWithT(t)
	w := world(2)
	w.Clusters[1].Annotations = map[string]string{v1alpha1.FreezeAnnotation: "a test"}
	w.work()
	g.Expect(w.names()).To(ConsistOf("c00/outage"))
	g.Expect(w.Disruption.Status.Failures).To(ConsistOf(And(HaveField("Cluster", "c01"), HaveField("Message", ContainSubstring("a test")))))
	w.Clusters[1].Annotations = nil
	w.end()
	w.work()
	g.Expect(w.Runs).To(HaveLen(1))
	g.Expect(w.Disruption.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionFailed), HaveField("Failed", BeEquivalentTo(1)), HaveField("Failures", HaveLen(1))))
}

func TestPausePausesAllRuns(t *testing.T) {
	g := NewWithT(t)
	w := world(2)
	w.Disruption.Spec.Paused = true
	w.work()
	g.Expect(w.Runs).To(BeEmpty(), "nothing starts while it is paused")
	w.Disruption.Spec.Paused = false
	w.work()
	g.Expect(w.Runs).To(HaveLen(2))
	w.Disruption.Spec.Paused = true
	g.Expect(w.work().Pause).To(HaveLen(2))
	g.Expect(w.Runs).To(HaveEach(HaveField("Spec.Paused", true)))
	g.Expect(w.Disruption.Status.Phase).To(Equal(v1alpha1.NodeDisruptionPaused))
	w.Disruption.Spec.Paused = false
	w.work()
	g.Expect(w.Runs).To(HaveEach(HaveField("Spec.Paused", false)))
}

// Claim: A dry run starts nothing. Broken: its runs are not paused.
func TestADryRunShowsAndBeginsNothing(t *testing.T) {
	g := NewWithT(t)
	w := world(3)
	w.Disruption.Spec.DryRun = true
	w.Clusters[2].Annotations = map[string]string{v1alpha1.FreezeAnnotation: "a test"}
	w.work()
	g.Expect(w.names()).To(ConsistOf("c00/outage-preview", "c01/outage-preview"))
	g.Expect(w.Runs).To(HaveEach(HaveField("Spec.Paused", true)))
	w.Runs[0].Status.Preview = &v1alpha1.NodePreview{Selected: 2, Nodes: []string{"a", "b"}, Warnings: []string{"a threshold"}}
	w.work()
	g.Expect(w.Disruption.Status.Preview).To(ConsistOf(
		And(HaveField("Cluster", "c00"), HaveField("Selected", BeEquivalentTo(2))), And(HaveField("Cluster", "c02"), HaveField("Warnings", ConsistOf(ContainSubstring("frozen"))))))
	w.Disruption.Spec.DryRun = false
	w.work()
	g.Expect(w.names()).To(ConsistOf("c00/outage", "c01/outage"), "the previews are gone, and the disruption starts")
	g.Expect(w.Disruption.Status.Preview).To(BeEmpty())
}

func TestTheVerdictIsThatOfAllRuns(t *testing.T) {
	for name, c := range map[string]struct {
		verdicts []v1alpha1.DisruptionVerdict
		want     v1alpha1.DisruptionVerdict
	}{
		"all passed":      {[]v1alpha1.DisruptionVerdict{"Passed", "Passed"}, "Passed"},
		"one is open":     {[]v1alpha1.DisruptionVerdict{"Passed", ""}, ""},
		"one has missed":  {[]v1alpha1.DisruptionVerdict{"Failed", ""}, "Failed"},
		"none is known":   {[]v1alpha1.DisruptionVerdict{"", ""}, ""},
		"one is unknown":  {[]v1alpha1.DisruptionVerdict{"Passed", "Unknown"}, "Unknown"},
		"unknown, open":   {[]v1alpha1.DisruptionVerdict{"", "Unknown"}, ""},
		"unknown, missed": {[]v1alpha1.DisruptionVerdict{"Failed", "Unknown"}, "Failed"},
		"without cluster": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(len(c.verdicts))
			w.Disruption.Spec.Expectations = []v1alpha1.DisruptionExpectation{{Type: v1alpha1.ExpectMachineReplaced}}
			w.work()
			for i, verdict := range c.verdicts {
				w.Runs[i].Status.Verdict = verdict
				w.Runs[i].Status.Expectations = []v1alpha1.ExpectationResult{{Type: v1alpha1.ExpectMachineReplaced, Missed: 1, Met: 2}}
			}
			w.work()
			NewWithT(t).Expect(w.Disruption.Status.Verdict).To(Equal(c.want))
		})
	}
}

// Claim: Status names 20 failures at most. Broken: all are named.
func TestTheStatusIsBounded(t *testing.T) {
	g := NewWithT(t)
	w := world(100)
	w.work()
	for i := range w.Runs {
		w.Runs[i].Status.Phase, w.Runs[i].Status.Message = v1alpha1.NodeDisruptionFailed, "no Node is hit"
	}
	w.work()
	g.Expect(w.Disruption.Status.Failures).To(HaveLen(fanout.MostFailures))
	g.Expect(w.Disruption.Status.Failures[0].Cluster).To(Equal("c00"))
	g.Expect(w.Disruption.Status.Failed).To(BeEquivalentTo(100))
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	for _, schedule := range []string{"@every 1m", "0 3 30 2 *", "1 2 3"} {
		w := world(1)
		w.Disruption.Spec.Schedule = schedule
		w.work()
		NewWithT(t).Expect(w.Disruption.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionFailed), HaveField("Message", ContainSubstring("spec.schedule"))), schedule)
	}
	w := world(1)
	w.work()
	w.Runs[0].DecodeError = "a week is no duration"
	w.Runs[0].Status = v1alpha1.NodeDisruptionRunStatus{}
	w.work()
	NewWithT(t).Expect(w.Disruption.Status.Failures).To(ConsistOf(HaveField("Message", ContainSubstring("a week is no duration"))))
}
