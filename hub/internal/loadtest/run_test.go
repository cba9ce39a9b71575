package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest/preset"
)

// Claim: More runs get more notice. Broken: the same time ahead for all.
func TestTheMoreRunsTheEarlierTheyAreToldOfTheirBeginning(t *testing.T) {
	for clusters, lead := range map[int]time.Duration{1: 3 * time.Second, 50: 4 * time.Second, 500: 13 * time.Second} {
		NewWithT(t).Expect(begun(clusters, nil).Test.Status.StartTime.Time).To(Equal(begin.Add(lead)), "%d runs", clusters)
	}
}

// Claim: A lost agent's run makes a partial report. Broken: the agent's connection is not asked for.
func TestARunWhoseAgentIsLostIsNotWaitedForAndCountsInPart(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(*World)
		after time.Duration
		says  string
	}{
		"the agent is away": {func(w *World) {
			w.Clusters[1].Status.Conditions[2] = metav1.Condition{Type: v1alpha1.ClusterAgentConnectedCondition, Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(begin)}
		}, lostAfter, "its agent was lost at 2026-11-26T10:00:30Z"},
		"the run does not end":  {func(*World) {}, 0, "it was not over 2m0s after its timeout"},
		"the Cluster is gone":   {func(w *World) { w.Clusters = w.Clusters[:1] }, time.Second, "its Cluster is gone"},
		"the run is unreadable": {func(w *World) { w.Runs[1].DecodeError = "a week is no duration" }, time.Second, "a week is no duration"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := begun(2, nil)
			completed("", 7*time.Second)(&w.Runs[1].Status)
			w.Runs[1].Status.Phase, w.Runs[1].Status.EndTime = v1alpha1.LoadTestRunPhaseRunning, nil
			completed(v1alpha1.LoadPassed, time.Second)(&w.Runs[0].Status)
			c.lose(w)
			due := begin.Add(c.after)
			if c.after == 0 {
				due = w.Test.Status.StartTime.Add(w.Runs[1].Spec.Timeout.Duration + lostAfter)
			}
			if c.after != time.Second {
				w.Now = due.Add(-time.Second)
				g.Expect(w.step().Next).To(BeTemporally("<=", due))
				g.Expect(w.Test.Status.Phase).To(Equal(v1alpha1.LoadTestPhaseRunning))
			}
			w.Now = due
			w.step()
			s := &w.Test.Status
			g.Expect(s.Failures).To(ConsistOf(And(HaveField("Cluster", "c01"), HaveField("Message", ContainSubstring(c.says)))))
			g.Expect(s).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseCompleted), HaveField("Partial", true), HaveField("Verdict", v1alpha1.LoadMissed),
				HaveField("Completed", BeEquivalentTo(1)), HaveField("Failed", BeEquivalentTo(1)), HaveField("EndTime.Time", due)))
			g.Expect(s.Results[0]).To(And(HaveField("Count", BeEquivalentTo(2)), HaveField("WorstCluster", "c01")), "what it had reported counts")
			if w.Runs[1].DecodeError == "" {
				g.Expect(w.Runs[1].Spec.Stopped).To(BeTrue(), "so that it ends when its agent is back")
			}
		})
	}
}

func TestNodesFailBesideTheLoad(t *testing.T) {
	outage := &v1alpha1.Disruption{Faults: []disrupt.Fault{{Type: disrupt.NotReady}}, Timing: v1alpha1.DisruptionTiming{Duration: metav1.Duration{Duration: time.Hour}}}
	disrupted := func(spec *v1alpha1.LoadTestSpec) { spec.Disruption = outage }
	g := NewWithT(t)
	w := begun(2, disrupted)
	g.Expect(w.Disruptions).To(HaveLen(2))
	g.Expect(w.Disruptions[0]).To(And(HaveField("Name", "rush-load-test"), HaveField("Namespace", "c00"), HaveField("Spec.Disruption", *outage),
		HaveField("Labels", HaveKeyWithValue(v1alpha1.LoadTestNameLabel, "rush")), HaveField("OwnerReferences", HaveLen(1))))
	w.Disruptions[0].Status.Phase, w.Disruptions[0].Status.Message = v1alpha1.NodeDisruptionFailed, "no Node is hit"
	w.Now = w.Now.Add(time.Minute)
	w.step()
	g.Expect(w.Test.Status.Failures).To(ConsistOf(HaveField("Message", "Nodes did not fail as planned: no Node is hit")))
	w.say(completed(v1alpha1.LoadPassed, time.Second))
	w.step()
	g.Expect(w.Disruptions[0].Spec.Paused).To(BeFalse(), "that is over already")
	g.Expect(w.Disruptions[1].Spec.Paused).To(BeTrue(), "the Nodes are healthy again when the load is over")

	w = begun(1, func(spec *v1alpha1.LoadTestSpec) { spec.Preset.Name = preset.NodeChurn })
	g.Expect(w.Disruptions[0].Spec.Faults).To(ConsistOf(HaveField("Type", disrupt.Reboot)))
	w = begun(1, func(spec *v1alpha1.LoadTestSpec) { spec.Preset.Name, spec.Disruption = preset.NodeChurn, outage })
	g.Expect(w.Disruptions[0].Spec.Faults).To(ConsistOf(HaveField("Type", disrupt.NotReady)), "the user's comes before that of the preset")

	w = world(1)
	disrupted(&w.Test.Spec)
	w.Disruptions = []v1alpha1.NodeDisruptionRun{{ObjectMeta: metav1.ObjectMeta{Namespace: "c00", Name: "rush-load-test"}}}
	w.step()
	w.step()
	w.say(phase(v1alpha1.LoadTestRunPhasePrepared))
	w.step()
	w.step()
	g.Expect(w.Test.Status.Failures).To(ConsistOf(HaveField("Message", ContainSubstring("another NodeDisruptionRun has the name rush-load-test"))))
	g.Expect(w.Disruptions).To(HaveLen(1))

	w = begun(1, disrupted)
	w.Disruptions = nil
	w.Now = w.Test.Status.StartTime.Add(lateStart + time.Second)
	g.Expect(w.step().Disrupt).To(BeEmpty(), "later it would hit another part of the load")
	g.Expect(w.Test.Status.Failures).To(ConsistOf(HaveField("Message", ContainSubstring("NodeDisruptionRun rush-load-test is missing"))))
}

func TestStoppingEndsTheRunsAndKeepsWhatWasMeasured(t *testing.T) {
	g := NewWithT(t)
	w := begun(2, func(spec *v1alpha1.LoadTestSpec) {
		spec.Disruption = &v1alpha1.Disruption{Faults: []disrupt.Fault{{Type: disrupt.NotReady}}}
	})
	w.Test.Spec.Stopped = true
	w.step()
	g.Expect(w.Runs).To(HaveEach(HaveField("Spec.Stopped", true)))
	g.Expect(w.Disruptions).To(HaveEach(HaveField("Spec.Paused", true)))
	g.Expect(w.Test.Status.Phase).To(Equal(v1alpha1.LoadTestPhaseRunning), "until they have ended")
	w.say(completed(v1alpha1.LoadMissed, time.Second))
	for i := range w.Runs {
		w.Runs[i].Status.Failure = "it was stopped"
	}
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseCompleted), HaveField("Verdict", v1alpha1.LoadMissed), HaveField("Results", Not(BeEmpty()))))
}

func TestCleaningUpIsWaitedForButNotForEver(t *testing.T) {
	g := NewWithT(t)
	w := begun(2, nil)
	w.say(completed(v1alpha1.LoadPassed, time.Second))
	w.Runs[0].Status.Phase = v1alpha1.LoadTestRunPhaseCleaningUp
	w.Now = begin.Add(time.Minute)
	w.step()
	s := &w.Test.Status
	g.Expect(s).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseCleaningUp), HaveField("Verdict", v1alpha1.LoadPassed), HaveField("Completed", BeEquivalentTo(2)),
		HaveField("Message", ContainSubstring("1 of 2 clusters are being cleaned up"))))
	results := s.Results
	w.Now = s.EndTime.Add(cleanupTimeout - time.Second)
	g.Expect(w.step().Next).To(Equal(s.EndTime.Add(cleanupTimeout)))
	w.Now = s.EndTime.Add(cleanupTimeout)
	w.step()
	g.Expect(w.Test.Status).To(And(HaveField("Phase", v1alpha1.LoadTestPhaseCompleted), HaveField("Results", results), HaveField("Message", ContainSubstring("In 1 cluster the agent has not reported yet"))))
	g.Expect(w.Runs[0].Spec.Stopped).To(BeFalse())
}

func TestTheRunOfADeletedTestIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	w := world(2)
	w.Runs = []v1alpha1.LoadTestRun{{ObjectMeta: metav1.ObjectMeta{Namespace: "c00", Name: "rush", OwnerReferences: []metav1.OwnerReference{{Kind: "LoadTest", Name: "rush", UID: "old", Controller: new(true)}}}}}
	w.step()
	w.step()
	g.Expect(w.Test.Status.Phase).To(Equal(v1alpha1.LoadTestPhasePending))
	w.Runs[1].Status.Phase = v1alpha1.LoadTestRunPhasePrepared
	w.Now = begin.Add(time.Minute)
	w.step()
	g.Expect(w.Test.Status.Phase).To(Equal(v1alpha1.LoadTestPhaseRunning))
	g.Expect(w.Test.Status.Failures).To(ConsistOf(HaveField("Message", ContainSubstring("a load test of the same name that was deleted is still there"))))
}
