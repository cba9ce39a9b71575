package plan

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestFrozen(t *testing.T) {
	tests := map[string]struct {
		limits OvershootLimits
		facts  OvershootFacts
		want   bool
	}{
		"as many as asked for":                 {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 10, Grown: true}, false},
		"below high":                           {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 11, Grown: true}, false},
		"at high":                              {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 12, Grown: true}, true},
		"above high":                           {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 40, Grown: true}, true},
		"none asked for":                       {DefaultOvershootLimits, OvershootFacts{Machines: 2, Grown: true}, true},
		"left of more":                         {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 40}, false},
		"frozen, at high":                      {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 12, Frozen: true}, true},
		"frozen, at low":                       {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 11, Frozen: true}, false},
		"frozen, at low, and more came":        {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 11, Frozen: true, Grown: true}, false},
		"frozen, between low and high":         {OvershootLimits{5, 3}, OvershootFacts{Asked: 10, Machines: 13, Frozen: true}, true},
		"not frozen, between low and high":     {OvershootLimits{5, 3}, OvershootFacts{Asked: 10, Machines: 13, Grown: true}, false},
		"frozen, low of another limit":         {OvershootLimits{5, 3}, OvershootFacts{Asked: 10, Machines: 12, Frozen: true}, false},
		"frozen, and more are asked for":       {DefaultOvershootLimits, OvershootFacts{Asked: 39, Machines: 40, Frozen: true}, false},
		"frozen, and a user allows it":         {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 40, Frozen: true, Allowed: true}, false},
		"more came, and a user allows it":      {DefaultOvershootLimits, OvershootFacts{Asked: 10, Machines: 40, Grown: true, Allowed: true}, false},
		"the narrowest limits, one too many":   {OvershootLimits{1, 1}, OvershootFacts{Asked: 10, Machines: 11, Grown: true}, true},
		"the narrowest limits, none too many":  {OvershootLimits{1, 1}, OvershootFacts{Asked: 10, Machines: 10, Frozen: true}, false},
		"the widest hysteresis thaws at asked": {OvershootLimits{4, 4}, OvershootFacts{Asked: 10, Machines: 10, Frozen: true}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.limits.Frozen(test.facts); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
			if message := test.limits.DescribeOvershoot("x", test.facts); test.want != (message != "") {
				t.Errorf("message %q", message)
			}
		})
	}
}

func TestOf(t *testing.T) {
	g := NewWithT(t)
	set := &v1alpha1.MachineSet{Spec: v1alpha1.MachineSetSpec{Replicas: new(int32(4))}}
	g.Expect(OvershootOf(set, nil, 7)).To(Equal(OvershootFacts{Asked: 4, Machines: 7}))
	g.Expect(OvershootOf(&v1alpha1.MachineSet{}, nil, 0).Asked).To(Equal(1), "the API server's default")

	surge := intstr.FromString("25%")
	deployment := &v1alpha1.MachineDeployment{Spec: v1alpha1.MachineDeploymentSpec{Replicas: new(int32(10))}}
	for strategy, asked := range map[v1alpha1.MachineDeploymentStrategyType]int{
		v1alpha1.RollingUpdate: 13, v1alpha1.InPlace: 10, v1alpha1.Recreate: 10, v1alpha1.OnDelete: 10,
	} {
		deployment.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: strategy}
		if strategy == v1alpha1.RollingUpdate {
			deployment.Spec.Strategy.RollingUpdate = &v1alpha1.RollingUpdateBounds{MaxSurge: &surge}
		}
		g.Expect(OvershootOf(set, deployment, 0).Asked).To(Equal(asked), string(strategy))
	}
	set.Spec.Replicas = new(int32(20))
	g.Expect(OvershootOf(set, deployment, 0).Asked).To(Equal(20), "its deployment has not scaled it down yet")

	set.Status.Conditions = []metav1.Condition{{Type: v1alpha1.FrozenCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAgentSilent}}
	g.Expect(OvershootOf(set, nil, 0).Frozen).To(BeFalse())
	set.Status.Conditions[0].Reason = v1alpha1.ReasonOvershoot
	g.Expect(OvershootOf(set, nil, 0).Frozen).To(BeTrue())

	g.Expect(OvershootOf(set, deployment, 0).Allowed).To(BeFalse())
	deployment.Annotations = map[string]string{v1alpha1.AllowOvershootAnnotation: "true"}
	g.Expect(OvershootOf(set, deployment, 0).Allowed).To(BeTrue())
	g.Expect(OvershootOf(set, nil, 0).Allowed).To(BeFalse())
	set.Annotations = map[string]string{v1alpha1.AllowOvershootAnnotation: "true"}
	g.Expect(OvershootOf(set, nil, 0).Allowed).To(BeTrue())
}

func TestArrivals(t *testing.T) {
	look := func(machines int) MachinesSeen { return MachinesSeen{Machines: machines, Generation: 1} }
	tests := map[string]struct {
		before func(*ArrivalTracker)
		now    MachinesSeen
		want   bool
	}{
		"the first look, as the status says": {func(*ArrivalTracker) {}, look(3), false},
		"the first look, more than it says":  {func(*ArrivalTracker) {}, look(4), true},
		"the first look, at another will":    {func(*ArrivalTracker) {}, MachinesSeen{Machines: 4, Generation: 2}, false},
		"as before":                          {func(a *ArrivalTracker) { a.Record(look(9), look(3)) }, look(9), false},
		"more than before":                   {func(a *ArrivalTracker) { a.Record(look(9), look(3)) }, look(10), true},
		"fewer, and then more":               {func(a *ArrivalTracker) { a.Record(look(9), look(3)); a.Record(look(5), look(3)) }, look(6), true},
		"what was made":                      {func(a *ArrivalTracker) { a.AddCreated(6); a.Record(look(3), look(3)) }, look(9), false},
		"more than was made":                 {func(a *ArrivalTracker) { a.AddCreated(6); a.Record(look(3), look(3)) }, look(10), true},
		"another will":                       {func(a *ArrivalTracker) { a.Record(look(9), look(3)) }, MachinesSeen{Machines: 20, Generation: 2}, false},
		"another will above":                 {func(a *ArrivalTracker) { a.Record(look(9), look(3)) }, MachinesSeen{Machines: 20, Generation: 1, Above: 1}, false},
		"more after another will": {func(a *ArrivalTracker) {
			a.Record(look(9), look(3))
			a.Record(MachinesSeen{Machines: 9, Generation: 2}, look(3))
		}, MachinesSeen{Machines: 10, Generation: 2}, true},
		"made before another will, shown late": {func(a *ArrivalTracker) {
			a.AddCreated(6)
			a.Record(look(3), look(3))
			a.Record(MachinesSeen{Machines: 4, Generation: 2}, look(3))
		}, MachinesSeen{Machines: 9, Generation: 2}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var arrivals ArrivalTracker
			test.before(&arrivals)
			if got := arrivals.Grown(test.now, look(3)); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}
