package freeze

import (
	"strings"
	"testing"
	"time"

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

func TestTheClockStandsWhileTheClusterIsFrozen(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	since := now.Add(-time.Hour)
	cluster := func(status metav1.ConditionStatus, since time.Time) *v1alpha1.Cluster {
		c := &v1alpha1.Cluster{}
		c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: status, LastTransitionTime: metav1.NewTime(since)}}
		return c
	}
	for name, test := range map[string]struct {
		cluster *v1alpha1.Cluster
		want    time.Time
	}{
		"no cluster":                {nil, now},
		"nothing is known of it":    {&v1alpha1.Cluster{}, now},
		"not frozen":                {cluster(metav1.ConditionFalse, since), now},
		"frozen":                    {cluster(metav1.ConditionTrue, since), since},
		"perhaps frozen":            {cluster(metav1.ConditionUnknown, since), since},
		"a clock that was set back": {cluster(metav1.ConditionTrue, now.Add(time.Minute)), now},
	} {
		if got := Clock(test.cluster, now); !got.Equal(test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
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
