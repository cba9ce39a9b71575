package freeze

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
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
		"not known":                 {metav1.ConditionUnknown, v1alpha1.ReasonUnknown, "Unknown"},
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

func TestOfCluster(t *testing.T) {
	set := func(kind string, status metav1.ConditionStatus, reason string) func(*v1alpha1.Cluster) {
		return func(c *v1alpha1.Cluster) {
			meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "so it is"})
		}
	}
	annotate := func(c *v1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.FreezeAnnotation, "why")
	}
	tests := map[string]struct {
		change []func(*v1alpha1.Cluster)
		reason string
	}{
		"all is well": {},
		"it goes": {
			[]func(*v1alpha1.Cluster){func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, annotate},
			v1alpha1.ReasonDeleting,
		},
		"denied": {
			[]func(*v1alpha1.Cluster){func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptanceDenied }, annotate},
			v1alpha1.ReasonDenied,
		},
		"not accepted": {
			[]func(*v1alpha1.Cluster){func(c *v1alpha1.Cluster) { c.Spec.Acceptance = v1alpha1.AcceptancePending }},
			v1alpha1.ReasonAwaitingAcceptance,
		},
		"the hub has not read it": {
			[]func(*v1alpha1.Cluster){func(c *v1alpha1.Cluster) { c.Status.Conditions = nil }},
			v1alpha1.ReasonPending,
		},
		"the hub cannot accept it": {
			[]func(*v1alpha1.Cluster){set(v1alpha1.ClusterAcceptedCondition, metav1.ConditionFalse, v1alpha1.ReasonNamespaceConflict)},
			v1alpha1.ReasonNamespaceConflict,
		},
		"a person has frozen it": {
			[]func(*v1alpha1.Cluster){annotate, set(v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)},
			v1alpha1.ReasonManualFreeze,
		},
		"the hub has frozen it": {
			[]func(*v1alpha1.Cluster){set(v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)},
			v1alpha1.ReasonAgentSilent,
		},
		"not known": {
			[]func(*v1alpha1.Cluster){set(v1alpha1.FrozenCondition, metav1.ConditionUnknown, v1alpha1.ReasonUnknown)},
			v1alpha1.ReasonUnknown,
		},
		"its agent has frozen, and the hub has not repeated it yet": {
			[]func(*v1alpha1.Cluster){set(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonTargetUnreachable)},
			v1alpha1.ReasonTargetUnreachable,
		},
		"its agent does not know": {
			[]func(*v1alpha1.Cluster){set(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionUnknown, v1alpha1.ReasonUnknown)},
			v1alpha1.ReasonUnknown,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptanceAccepted}}
			set(v1alpha1.ClusterAcceptedCondition, metav1.ConditionTrue, v1alpha1.ReasonAccepted)(cluster)
			set(v1alpha1.FrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)(cluster)
			set(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)(cluster)
			for _, change := range test.change {
				change(cluster)
			}
			got := OfCluster("c1", "c1", cluster)
			g.Expect(got.Frozen).To(Equal(test.reason != ""), "%+v", got)
			g.Expect(got.Reason).To(Equal(test.reason))
		})
	}
	g := NewWithT(t)
	g.Expect(OfCluster("c1", "c1", nil)).To(HaveField("Reason", v1alpha1.ReasonClusterNotFound))
	g.Expect(OfCluster("c1", "elsewhere", nil)).To(HaveField("Reason", v1alpha1.ReasonNamespaceConflict))
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
