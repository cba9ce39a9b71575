package conditions_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestSetMovesTheTransitionTimeOnlyWithTheStatus(t *testing.T) {
	g := NewWithT(t)
	var list []metav1.Condition
	set := func(status metav1.ConditionStatus, reason string, after time.Duration) bool {
		return conditions.Set(&list, metav1.Condition{Type: "A", Status: status, Reason: reason}, start.Add(after))
	}
	g.Expect(set(metav1.ConditionUnknown, "First", 0)).To(BeTrue())
	g.Expect(list[0].LastTransitionTime.Time).To(Equal(start))

	g.Expect(set(metav1.ConditionUnknown, "Second", time.Minute)).To(BeFalse(), "another reason is no transition")
	g.Expect(list[0].Reason).To(Equal("Second"))
	g.Expect(list[0].LastTransitionTime.Time).To(Equal(start))

	g.Expect(set(metav1.ConditionTrue, "Third", time.Hour)).To(BeTrue())
	g.Expect(list).To(HaveLen(1))
	g.Expect(list[0].LastTransitionTime.Time).To(Equal(start.Add(time.Hour)))
}

// A default of the schema has the time of the epoch: "for 56 years" would be no answer to since when something holds.
// Edge case: Default conditions dated from 1970.
func TestSetReplacesTheTimeOfADefault(t *testing.T) {
	g := NewWithT(t)
	list := []metav1.Condition{{Type: "A", Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Unix(0, 0))}}
	g.Expect(conditions.Set(&list, metav1.Condition{Type: "A", Status: metav1.ConditionUnknown, Reason: "First"}, start)).To(BeFalse())
	g.Expect(list[0].LastTransitionTime.Time).To(Equal(start))
}

func TestSetCutsAMessageThatTheAPIServerWouldRefuse(t *testing.T) {
	g := NewWithT(t)
	var list []metav1.Condition
	conditions.Set(&list, metav1.Condition{Type: "A", Status: metav1.ConditionTrue, Message: strings.Repeat("x", 40000)}, start)
	g.Expect(list[0].Message).To(HaveLen(conditions.MaxMessage + len("…") - 1))
}

func TestSummarize(t *testing.T) {
	table := []conditions.Part{
		{Type: "Pod", Wanted: metav1.ConditionTrue},
		{Type: "Node", Wanted: metav1.ConditionTrue},
		{Type: "Frozen", Wanted: metav1.ConditionFalse, Optional: true},
	}
	condition := func(name string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: name + "Reason", Message: "it says so"}
	}
	pod, node := condition("Pod", metav1.ConditionTrue), condition("Node", metav1.ConditionTrue)
	for name, test := range map[string]struct {
		list    []metav1.Condition
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"all met":                        {[]metav1.Condition{pod, node}, metav1.ConditionTrue, v1alpha1.ReasonReady, ""},
		"nothing known":                  {nil, metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "Pod is not known yet"},
		"one False":                      {[]metav1.Condition{pod, condition("Node", metav1.ConditionFalse)}, metav1.ConditionFalse, "NodeReason", "Node: it says so"},
		"one Unknown":                    {[]metav1.Condition{condition("Pod", metav1.ConditionUnknown), node}, metav1.ConditionUnknown, "PodReason", "Pod: it says so"},
		"False counts more than Unknown": {[]metav1.Condition{condition("Pod", metav1.ConditionUnknown), condition("Node", metav1.ConditionFalse)}, metav1.ConditionFalse, "NodeReason", "Node: it says so"},
		"first Unknown is told":          {[]metav1.Condition{condition("Pod", metav1.ConditionUnknown), condition("Node", metav1.ConditionUnknown)}, metav1.ConditionUnknown, "PodReason", "Pod: it says so"},
		"frozen":                         {[]metav1.Condition{pod, node, condition("Frozen", metav1.ConditionTrue)}, metav1.ConditionFalse, "FrozenReason", "Frozen: it says so"},
		"not frozen":                     {[]metav1.Condition{pod, node, condition("Frozen", metav1.ConditionFalse)}, metav1.ConditionTrue, v1alpha1.ReasonReady, ""},
		"others do not count":            {[]metav1.Condition{pod, node, condition("Other", metav1.ConditionFalse)}, metav1.ConditionTrue, v1alpha1.ReasonReady, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ready := conditions.Summarize(test.list, table, 7)
			g.Expect(ready.Type).To(Equal(v1alpha1.ReadyCondition))
			g.Expect(ready.Status).To(Equal(test.status))
			g.Expect(ready.Reason).To(Equal(test.reason))
			g.Expect(ready.Message).To(Equal(test.message))
			g.Expect(ready.ObservedGeneration).To(BeEquivalentTo(7))
		})
	}
}
