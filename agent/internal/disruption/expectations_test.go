package disruption

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const unreachable = "node.kubernetes.io/unreachable"

// expecting is a world with one Node on which a fault of a minute starts now, with expectations of 20 seconds.
func expecting(t *testing.T, expectations ...v1alpha1.DisruptionExpectation) (*WithT, *World, *v1alpha1.NodeDisruptionRun) {
	t.Helper()
	g, w := NewWithT(t), world(1)
	run := w.add("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Expectations = expectations
		for i := range spec.Expectations {
			spec.Expectations[i].Within = metav1.Duration{Duration: 20 * time.Second}
		}
	})
	w.work()
	w.work()
	w.pass(run.Status.StartTime.Sub(w.Now))
	w.work()
	g.Expect(run.Status.Injected).To(BeEquivalentTo(1))
	return g, w, run
}

var (
	expectNotReady = v1alpha1.DisruptionExpectation{Type: v1alpha1.ExpectCondition, Condition: &v1alpha1.ExpectedCondition{Type: "Ready", Status: metav1.ConditionFalse}}
	expectTaint    = v1alpha1.DisruptionExpectation{Type: v1alpha1.ExpectTaint, Taint: &v1alpha1.ExpectedTaint{Key: unreachable}}
	expectReplaced = v1alpha1.DisruptionExpectation{Type: v1alpha1.ExpectMachineReplaced}
	expectEvicted  = v1alpha1.DisruptionExpectation{Type: v1alpha1.ExpectPodsEvicted}
)

// freezeFor lets the agent be frozen for so long, and look meanwhile.
func (w *World) freezeFor(d time.Duration) {
	since := w.Now
	w.Frozen = true
	w.Now = w.Now.Add(d)
	w.work()
	thawed := w.Now
	w.Frozen, w.Answered = false, w.Now
	before := w.Downtime
	w.Downtime = func(then time.Time) time.Duration {
		var sum time.Duration
		if before != nil {
			sum = before(then)
		}
		if then.After(since) {
			return sum + max(thawed.Sub(then), 0)
		}
		return sum + d
	}
}

// What an object says of its own time counts, however late the agent sees it.
// Claim: Expectations count by the objects' times. Broken: by the time of the look only.
func TestAnExpectationIsMetWhenTheObjectSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		expectation v1alpha1.DisruptionExpectation
		happens     func(*World, metav1.Time)
	}{
		"a condition": {expectNotReady, func(w *World, at metav1.Time) {
			w.Nodes["m00"].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: at}}
		}},
		"a taint": {expectTaint, func(w *World, at metav1.Time) {
			w.Nodes["m00"].Spec.Taints = []corev1.Taint{{Key: unreachable, Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}}
		}},
		"a deletion": {expectReplaced, func(w *World, at metav1.Time) { w.Machines[0].DeletionTimestamp = &at }},
	} {
		for late, want := range map[time.Duration]v1alpha1.DisruptionVerdict{19 * time.Second: v1alpha1.DisruptionPassed, 21 * time.Second: v1alpha1.DisruptionMissed} {
			t.Run(name+" after "+late.String(), func(t *testing.T) {
				g, w, run := expecting(t, c.expectation)
				c.happens(w, metav1.NewTime(w.Now.Add(late)))
				w.pass(30 * time.Second)
				w.work()
				g.Expect(run.Status.Verdict).To(Equal(want))
			})
		}
	}
}

// The time in which the agent is frozen counts against no expectation.
// Claim: Frozen time counts against no expectation. Broken: frozen time counts; the time of the last answer is not asked for; pods that cannot be counted count as not evicted; the run is over while frozen. Also: TestWhatCannotBeSeenIsUnknown, TestNothingIsMissedWhileTheAPIServerIsSilent, TestEvictionsThatCannotBeCountedAreUnknown; hub/internal/disruption TestTheVerdictIsThatOfAllRuns.
func TestFrozenTimeDoesNotCount(t *testing.T) {
	g, w, run := expecting(t, expectReplaced)
	w.pass(10 * time.Second)
	w.work()
	w.freezeFor(25 * time.Second)
	w.work()
	g.Expect(run.Status.Verdict).To(BeEmpty(), "ten seconds have passed")
	w.pass(9 * time.Second)
	w.Machines = nil
	w.work()
	g.Expect(run.Status.Verdict).To(Equal(v1alpha1.DisruptionPassed), "nineteen have")

	g, w, run = expecting(t, expectReplaced)
	w.freezeFor(25 * time.Second)
	w.pass(21 * time.Second)
	w.work()
	g.Expect(run.Status.Verdict).To(Equal(v1alpha1.DisruptionMissed))
}

// What could not be seen before the run was over is neither met nor missed.
func TestWhatCannotBeSeenIsUnknown(t *testing.T) {
	g, w, run := expecting(t, expectNotReady, expectReplaced)
	w.Machines[0].DeletionTimestamp = &metav1.Time{Time: w.Now}
	w.work()
	w.freezeFor(2 * time.Minute)
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionRunning), HaveField("Message", ContainSubstring("until the cluster's API server answers")), HaveField("Verdict", BeEmpty())))
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Verdict", v1alpha1.DisruptionUnknown),
		HaveField("Message", HaveSuffix("; for 1m0s of that time the agent was frozen or not running, and observed nothing"))))
	g.Expect(run.Status.Expectations).To(Equal([]v1alpha1.ExpectationResult{
		{Type: v1alpha1.ExpectCondition, Unknown: 1}, {Type: v1alpha1.ExpectMachineReplaced, Met: 1},
	}))
}

// An API server that does not answer shows nothing, also before the agent is frozen for that.
func TestNothingIsMissedWhileTheAPIServerIsSilent(t *testing.T) {
	g, w, run := expecting(t, expectNotReady)
	w.Now = w.Now.Add(30 * time.Second)
	w.work()
	g.Expect(run.Status.Verdict).To(BeEmpty())
	w.Now = w.Now.Add(time.Minute)
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionRunning))
	w.Answered = w.Now
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Verdict", v1alpha1.DisruptionMissed)))
}

// Pods that cannot be counted are not pods that were not evicted.
func TestEvictionsThatCannotBeCountedAreUnknown(t *testing.T) {
	g, w, run := expecting(t, expectEvicted)
	w.pass(30 * time.Second)
	w.work()
	g.Expect(run.Status.Verdict).To(BeEmpty())
	w.pass(time.Minute)
	w.work()
	g.Expect(run.Status.Verdict).To(Equal(v1alpha1.DisruptionUnknown))
}

// A Node that was not hit shows nothing of what was expected.
func TestAnExpectationIsMissedOnANodeThatWasNotHit(t *testing.T) {
	g, w := NewWithT(t), world(1)
	run := w.add("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Expectations = []v1alpha1.DisruptionExpectation{expectReplaced}
		spec.Expectations[0].Within = metav1.Duration{Duration: 20 * time.Second}
	})
	w.work()
	delete(w.Pods, "m00")
	w.pass(2 * time.Minute)
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionFailed), HaveField("Verdict", v1alpha1.DisruptionMissed),
		HaveField("Message", ContainSubstring("none of 1 Nodes was disrupted: m00: its pod is gone"))))
}

// A pause takes the fault away, so that what was expected of it can no longer be known.
func TestWhatAPauseInterruptsIsUnknown(t *testing.T) {
	g, w, run := expecting(t, expectNotReady, expectReplaced)
	w.Machines = nil
	w.work()
	run.Spec.Paused = true
	w.pass(time.Second)
	w.work()
	run.Spec.Paused = false
	w.pass(30 * time.Second)
	w.work()
	g.Expect(run.Status.Expectations).To(Equal([]v1alpha1.ExpectationResult{
		{Type: v1alpha1.ExpectCondition, Unknown: 1}, {Type: v1alpha1.ExpectMachineReplaced, Met: 1},
	}))
	g.Expect(run.Status.Verdict).To(Equal(v1alpha1.DisruptionUnknown))
	w.pass(time.Minute)
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Verdict", v1alpha1.DisruptionUnknown)))

	g, w = NewWithT(t), world(1)
	run = w.add("outage", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Expectations = []v1alpha1.DisruptionExpectation{expectReplaced}
		spec.Expectations[0].Within = metav1.Duration{Duration: 20 * time.Second}
	})
	w.work()
	run.Spec.Paused = true
	w.pass(time.Second)
	w.work()
	run.Spec.Paused = false
	w.work()
	w.pass(20 * time.Second)
	w.work()
	g.Expect(run.Status.Verdict).To(BeEmpty(), "a pause before the fault starts is none")
	run.Spec.Paused = true
	w.pass(2 * time.Minute)
	w.work()
	g.Expect(run.Status).To(And(HaveField("Phase", v1alpha1.NodeDisruptionCompleted), HaveField("Verdict", v1alpha1.DisruptionUnknown)))
}
