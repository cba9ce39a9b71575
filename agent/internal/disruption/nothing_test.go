package disruption

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Claim: A disruption that hit nothing is Failed. Broken: nothing hit, or none disrupted, is Completed; no reason for a percentage below one Node; a Node that was not hit is unknown. Also: TestAPercentageThatIsNoNodeSaysSo, TestAnExpectationIsMissedOnANodeThatWasNotHit.
func TestNeverJoinFailsWhereNoMachineCame(t *testing.T) {
	g, w := NewWithT(t), world(3)
	run := w.add("stuck", neverJoin(nil))
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionPending))
	g.Expect(run.Status.Message).To(ContainSubstring("0 that it could hit now are about to join"))
	w.pass(lead + 2*time.Second)
	w.work()
	g.Expect(run.Status.Message).To(ContainSubstring("Machines created during the faults are hit too, 0 so far"))
	w.pass(2 * time.Minute)
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionFailed))
	g.Expect(run.Status.Message).To(ContainSubstring("create Machines between its start and its end"))
	g.Expect(w.planned()).To(BeEmpty(), "who has joined is not touched")
}

func TestNeverJoinHitsAMachineThatHasNotJoined(t *testing.T) {
	g, w := NewWithT(t), world(3)
	delete(w.Nodes, "m01")
	run := w.add("stuck", neverJoin(nil))
	w.work()
	g.Expect(run.Status.Nodes).To(ConsistOf(HaveField("Name", "m01")))
}

func TestAPercentageThatIsNoNodeSaysSo(t *testing.T) {
	g, w := NewWithT(t), world(2)
	run := w.add("few", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Target.Mode, spec.Target.Value = disrupt.ModePercent, 34
	})
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionFailed))
	g.Expect(run.Status.Message).To(ContainSubstring("34% of 2 Nodes rounds down to 0"))
}

// The last answer of the API server is mostly older than the end of the faults: that alone is no reason for a doubt.
func TestTheEndOfADisruptionIsNoDoubt(t *testing.T) {
	g, w := NewWithT(t), world(1)
	run := w.add("outage", nil)
	w.work()
	w.pass(lead + 2*time.Second)
	w.work()
	end := run.Status.EndTime.Time
	look := func(after time.Duration) string {
		w.Now, w.Answered = end.Add(after), end.Add(-time.Second)
		w.work()
		g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionRunning))
		return run.Status.Message
	}
	g.Expect(look(time.Second)).To(Equal("the faults are over; checking the Nodes once more"))
	g.Expect(look(nextAnswer - time.Second)).To(ContainSubstring("checking the Nodes once more"))
	g.Expect(look(nextAnswer)).To(ContainSubstring("is unknown until the cluster's API server answers"))
	w.Frozen = true
	g.Expect(look(time.Second)).To(ContainSubstring("is unknown"))
}

// A message is one line, whatever is wrong: it stands in tables and conditions.
func TestAllThatIsWrongIsSaidInOneLine(t *testing.T) {
	g, w := NewWithT(t), world(1)
	run := w.add("wrong", func(spec *v1alpha1.NodeDisruptionRunSpec) {
		spec.Faults = []disrupt.Fault{{Type: disrupt.Flap}, {Type: disrupt.SlowAPI}}
	})
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionFailed))
	g.Expect(run.Status.Message).To(And(ContainSubstring("flap: required"), ContainSubstring("slowAPI: required"), Not(ContainSubstring("\n"))))
}
