package plan

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func minutes(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Minute}
}

// limitedSet is one whose template gives timeouts and conditions.
func limitedSet(timeouts *v1alpha1.MachineTimeouts, conditions ...string) *v1alpha1.MachineSet {
	set := machineSet(nil, nil)
	set.Spec.Template.Spec.Timeouts, set.Spec.Template.Spec.UnhealthyNodeConditions = timeouts, conditions
	return set
}

func TestLimitsThatAPersonSetsOnAMachineStay(t *testing.T) {
	type values struct {
		Timeouts   *v1alpha1.MachineTimeouts
		Conditions []string
	}
	first := values{&v1alpha1.MachineTimeouts{Health: minutes(10), Drain: minutes(60)}, []string{"A"}}
	second := values{&v1alpha1.MachineTimeouts{Health: minutes(20), Drain: minutes(30)}, []string{"B"}}
	tests := map[string]struct {
		edit func(*v1alpha1.MachineSpec)
		want values
	}{
		"not edited": {func(*v1alpha1.MachineSpec) {}, second},
		"one timeout": {
			func(s *v1alpha1.MachineSpec) { s.Timeouts.Drain = minutes(5) },
			values{&v1alpha1.MachineTimeouts{Health: minutes(20), Drain: minutes(5)}, []string{"B"}},
		},
		"one that the template does not give": {
			func(s *v1alpha1.MachineSpec) { s.Timeouts.Creation = minutes(5) },
			values{&v1alpha1.MachineTimeouts{Creation: minutes(5), Health: minutes(20), Drain: minutes(30)}, []string{"B"}},
		},
		"the conditions": {
			func(s *v1alpha1.MachineSpec) { s.UnhealthyNodeConditions = []string{"A", "C"} },
			values{second.Timeouts, []string{"A", "C"}},
		},
		"taken away again": {func(s *v1alpha1.MachineSpec) { s.Timeouts, s.UnhealthyNodeConditions = nil, nil }, second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			machine := &v1alpha1.Machine{}
			before, after := TemplateOf(limitedSet(first.Timeouts, first.Conditions...)), TemplateOf(limitedSet(second.Timeouts, second.Conditions...))
			before.Give(machine)
			machine = machine.DeepCopy()
			test.edit(&machine.Spec)
			edited := machine.DeepCopy()
			if removed := machine.Spec.Timeouts == nil; before.Reached(machine) == removed {
				t.Errorf("the old template has reached the machine: %t", !removed)
			} else if before.Give(machine); !removed && !equality.Semantic.DeepEqual(edited, machine) {
				t.Errorf("the old template took the edit back: %+v", machine.Spec)
			}
			if after.Reached(machine) {
				t.Error("the new template has reached the machine before it was given")
			}
			after.Give(machine)
			got := values{machine.Spec.Timeouts, machine.Spec.UnhealthyNodeConditions}
			if !equality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("timeouts %+v, conditions %v\nwant %+v, %v", got.Timeouts, got.Conditions, test.want.Timeouts, test.want.Conditions)
			}
			if !after.Reached(machine) {
				t.Error("what was given has not arrived")
			}
			// Back to the template: what a person takes away, the set gives again.
			machine.Spec.Timeouts, machine.Spec.UnhealthyNodeConditions = nil, nil
			if after.Reached(machine) {
				t.Error("it was not seen that the machine has no limits")
			}
			after.Give(machine)
			got = values{machine.Spec.Timeouts, machine.Spec.UnhealthyNodeConditions}
			if !equality.Semantic.DeepEqual(got, second) {
				t.Errorf("after the way back: timeouts %+v, conditions %v", got.Timeouts, got.Conditions)
			}
		})
	}
}

func TestAMachineOfNoTemplateKeepsItsLimits(t *testing.T) {
	machine := &v1alpha1.Machine{}
	machine.Spec.Timeouts = &v1alpha1.MachineTimeouts{Drain: minutes(5)}
	template := TemplateOf(limitedSet(&v1alpha1.MachineTimeouts{Health: minutes(20), Drain: minutes(30)}))
	template.Give(machine)
	if want := (&v1alpha1.MachineTimeouts{Health: minutes(20), Drain: minutes(5)}); !equality.Semantic.DeepEqual(machine.Spec.Timeouts, want) {
		t.Errorf("adopted with %+v", machine.Spec.Timeouts)
	}
	none := TemplateOf(limitedSet(nil))
	none.Give(machine)
	if want := (&v1alpha1.MachineTimeouts{Drain: minutes(5)}); !equality.Semantic.DeepEqual(machine.Spec.Timeouts, want) {
		t.Errorf("a template without timeouts leaves %+v", machine.Spec.Timeouts)
	}
	if _, noted := machine.Annotations[v1alpha1.TemplateKeysAnnotation]; noted || !none.Reached(machine) {
		t.Errorf("annotations %v", machine.Annotations)
	}
}

// Whatever templates come and whatever people set: what was given has reached the Machine, an edit to a value that no
// template had is never lost, and giving twice changes nothing.
func TestGivenLimitsNeverOverwriteAPersons(t *testing.T) {
	drawn := rapid.Custom(func(t *rapid.T) *metav1.Duration {
		if n := rapid.IntRange(0, 3).Draw(t, "minutes"); n > 0 {
			return minutes(n)
		}
		return nil
	})
	rapid.Check(t, func(t *rapid.T) {
		machine, persons := &v1alpha1.Machine{}, (*metav1.Duration)(nil)
		for range rapid.IntRange(1, 5).Draw(t, "templates") {
			template := TemplateOf(limitedSet(&v1alpha1.MachineTimeouts{Health: drawn.Draw(t, "health"), Drain: drawn.Draw(t, "drain")}))
			template.Give(machine)
			if !template.Reached(machine) {
				t.Fatalf("%+v has not reached %+v", template.given, machine.Spec.Timeouts)
			}
			again := machine.DeepCopy()
			if template.Give(again); !equality.Semantic.DeepEqual(again, machine) {
				t.Fatalf("giving twice made %+v of %+v", again.Spec.Timeouts, machine.Spec.Timeouts)
			}
			if persons != nil && (machine.Spec.Timeouts == nil || *machine.Spec.Timeouts.Drain != *persons) {
				t.Fatalf("a person's %v is lost: %+v", persons, machine.Spec.Timeouts)
			}
			if rapid.Bool().Draw(t, "edit") {
				persons = minutes(rapid.IntRange(10, 12).Draw(t, "persons"))
				timeouts := machine.Spec.Timeouts.DeepCopy()
				if timeouts == nil {
					timeouts = &v1alpha1.MachineTimeouts{}
				}
				timeouts.Drain, machine.Spec.Timeouts = persons, timeouts
			}
		}
	})
}
