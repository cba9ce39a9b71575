package disruption

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestNeverJoinIsRefusedWhereAllHaveJoined(t *testing.T) {
	g, w := NewWithT(t), world(3)
	run := w.add("stuck", func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Faults = []disrupt.Fault{{Type: disrupt.NeverJoin}} })
	w.work()
	g.Expect(run.Status.Phase).To(Equal(v1alpha1.NodeDisruptionFailed))
	g.Expect(run.Status.Message).To(ContainSubstring("no Machine of the target is about to join"))
}

func TestNeverJoinHitsAMachineThatHasNotJoined(t *testing.T) {
	g, w := NewWithT(t), world(3)
	delete(w.Nodes, "m01")
	run := w.add("stuck", func(spec *v1alpha1.NodeDisruptionRunSpec) { spec.Faults = []disrupt.Fault{{Type: disrupt.NeverJoin}} })
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
	g.Expect(run.Status.Message).To(ContainSubstring("34% of 2 Nodes is less than one, rounded down"))
}
