package freeze

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestLabel(t *testing.T) {
	tests := map[string]struct {
		status metav1.ConditionStatus
		reason string
		want   string
	}{
		"frozen":                    {metav1.ConditionTrue, v1alpha1.ReasonAgentSilent, "AgentSilent"},
		"nobody knows":              {metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "Unknown"},
		"not frozen":                {metav1.ConditionFalse, v1alpha1.ReasonNotFrozen, ""},
		"an agent's own reason":     {metav1.ConditionTrue, "Odd:reason", "Frozen"},
		"an agent's endless reason": {metav1.ConditionTrue, strings.Repeat("x", 1000), "Frozen"},
		"no reason":                 {metav1.ConditionTrue, "", "Frozen"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := Label([]metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: test.status, Reason: test.reason}})
			g.Expect(got).To(Equal(test.want))
			g.Expect(validation.IsValidLabelValue(got)).To(BeEmpty())
		})
	}
	if got := Label(nil); got != "" {
		t.Errorf("without condition: %q", got)
	}
}

func TestBesides(t *testing.T) {
	g := NewWithT(t)
	one := Verdict{Frozen: true, Reason: "One", Message: "first"}
	two := Verdict{Frozen: true, Reason: "Two", Message: "second"}
	passing := Verdict{Frozen: true, Reason: "Three", Message: "third", Passing: true}
	g.Expect(one.Besides(two)).To(Equal(Verdict{Frozen: true, Reason: "One", Message: "first; besides: second"}))
	g.Expect(one.Besides(passing)).To(Equal(one), "what passes is not worth a write")
	g.Expect(one.Besides(Verdict{})).To(Equal(one))
	g.Expect(Verdict{}.Besides(passing)).To(Equal(passing))
	g.Expect(Verdict{}.Besides(Verdict{})).To(Equal(Verdict{}))
	g.Expect(All(Verdict{}, one, Verdict{}, two)).To(Equal(one.Besides(two)))
	g.Expect(All()).To(Equal(Verdict{}))
}

func TestAManualFreezeSaysWhoAndWhy(t *testing.T) {
	g := NewWithT(t)
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{v1alpha1.FreezeAnnotation: "maintenance"}}}
	g.Expect(OfAnnotation("MachineSet", set).Message).To(And(ContainSubstring("MachineSet x is frozen by its annotation"), ContainSubstring("(maintenance)")))
	set.Annotations[v1alpha1.FreezeUserAnnotation] = "jane"
	g.Expect(OfAnnotation("MachineSet", set).Message).To(ContainSubstring("by jane, with its annotation"))
	delete(set.Annotations, v1alpha1.FreezeAnnotation)
	g.Expect(OfAnnotation("MachineSet", set)).To(Equal(Verdict{}))
}
