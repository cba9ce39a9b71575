package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// OvershootLimits say when a MachineSet has far more Machines than were asked for: then something makes Machines that
// should not, and the set freezes, with its MachineDeployment.
type OvershootLimits struct {
	// Up: a set freezes when as many Machines more than were asked for exist. Down: it thaws when there are as many
	// fewer than that.
	Up, Down int
}

// DefaultOvershootLimits are those of a hub without flags.
var DefaultOvershootLimits = OvershootLimits{Up: 2, Down: 1}

// High is the number of Machines at which a set freezes, and Low the one at which it thaws.
func (l OvershootLimits) High(asked int) int { return asked + l.Up }

// Low is never less than what was asked for, as long as Down is no more than Up.
func (l OvershootLimits) Low(asked int) int { return l.High(asked) - l.Down }

// OvershootFacts are what a judgement rests on.
type OvershootFacts struct {
	// Asked is the most Machines that were asked for, by the set or its deployment.
	Asked int
	// Machines of the set, without those that are being deleted: they are on their way out.
	Machines int
	// Grown: some of them have come since the last look, and the set has not made them. Those that are left when
	// a user lowers replicas came when they were asked for: a scale-down takes them, and nothing is wrong.
	Grown bool
	// Frozen: the set is frozen for an overshoot already.
	Frozen bool
	// Allowed: a user wants it to be left to the scale-down.
	Allowed bool
}

// OvershootOf returns what is known of set and the deployment that controls it, nil for none; all but Grown.
func OvershootOf(set *v1alpha1.MachineSet, deployment *v1alpha1.MachineDeployment, machines int) OvershootFacts {
	facts := OvershootFacts{
		Asked: v1alpha1.DesiredReplicas(set.Spec.Replicas), Machines: machines,
		Allowed: set.Annotations[v1alpha1.AllowOvershootAnnotation] == "true",
	}
	if frozen := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.FrozenCondition); frozen != nil {
		facts.Frozen = frozen.Reason == v1alpha1.ReasonOvershoot
	}
	if deployment != nil {
		replicas := v1alpha1.DesiredReplicas(deployment.Spec.Replicas)
		surge, _ := deployment.Spec.Strategy.Bounds(replicas)
		facts.Asked = max(facts.Asked, replicas+surge)
		facts.Allowed = facts.Allowed || deployment.Annotations[v1alpha1.AllowOvershootAnnotation] == "true"
	}
	return facts
}

// Frozen tells whether facts are those of a set that has to be frozen.
func (l OvershootLimits) Frozen(facts OvershootFacts) bool {
	switch {
	case facts.Allowed:
		return false
	case facts.Frozen:
		return facts.Machines > l.Low(facts.Asked)
	default:
		return facts.Grown && facts.Machines >= l.High(facts.Asked)
	}
}

// Message says of the set of that name why it is frozen; it is empty if facts are not those of a set that has to be.
func (l OvershootLimits) Message(name string, facts OvershootFacts) string {
	if !l.Frozen(facts) {
		return ""
	}
	return fmt.Sprintf("MachineSet %s has %d machines that are not being deleted, and at most %d were asked for: find out what makes them, "+
		"and delete those that are too many; the work goes on when %d or fewer are left. "+
		"With the annotation %s=true a scale-down takes them",
		name, facts.Machines, facts.Asked, l.Low(facts.Asked), v1alpha1.AllowOvershootAnnotation)
}
