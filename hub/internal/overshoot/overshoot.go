// Package overshoot tells when a MachineSet has far more Machines than were asked for: then something makes
// Machines that should not, and the set freezes, with its MachineDeployment. It is pure.
package overshoot

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

// Limits say how many Machines are too many.
type Limits struct {
	// Up: a set freezes when as many Machines more than were asked for exist. Down: it thaws when there are as many
	// fewer than that.
	Up, Down int
}

// Defaults are those of a hub without flags.
var Defaults = Limits{Up: 2, Down: 1}

// High is the number of Machines at which a set freezes, and Low the one at which it thaws.
func (l Limits) High(asked int) int { return asked + l.Up }

// Low is never less than what was asked for, as long as Down is no more than Up.
func (l Limits) Low(asked int) int { return l.High(asked) - l.Down }

// Facts are what a judgement rests on.
type Facts struct {
	// Asked is the most Machines that were asked for, by the set or its deployment.
	Asked int
	// Machines of the set, without those that are being deleted: they are on their way out.
	Machines int
	// Grown: some of them have come since the last look, and the set has not made them. Those that are left when
	// a user lowers replicas came when they were asked for: a scale-down takes them, and nothing is wrong.
	Came bool
	// Frozen: the set is frozen for an overshoot already.
	Frozen bool
	// Allowed: a user wants it to be left to the scale-down.
	Allowed bool
}

// Of returns what is known of set and the deployment that controls it, nil for none; all but Came.
func Of(set *v1alpha1.MachineSet, deployment *v1alpha1.MachineDeployment, machines int) Facts {
	facts := Facts{
		Asked: number(set.Spec.Replicas), Machines: machines,
		Allowed: set.Annotations[v1alpha1.AllowOvershootAnnotation] == "true",
	}
	if frozen := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.FrozenCondition); frozen != nil {
		facts.Frozen = frozen.Reason == v1alpha1.ReasonOvershoot
	}
	if deployment != nil {
		replicas := Replicas(deployment)
		surge, _ := deployment.Spec.Strategy.Bounds(replicas)
		facts.Asked = max(facts.Asked, replicas+surge)
		facts.Allowed = facts.Allowed || deployment.Annotations[v1alpha1.AllowOvershootAnnotation] == "true"
	}
	return facts
}

// Replicas is how many Machines deployment is to have.
func Replicas(deployment *v1alpha1.MachineDeployment) int { return number(deployment.Spec.Replicas) }

// number is spec.replicas; the API server has filled in the default.
func number(replicas *int32) int {
	if replicas == nil {
		return 1
	}
	return int(*replicas)
}

// Frozen tells whether facts are those of a set that has to be frozen.
func (l Limits) Frozen(facts Facts) bool {
	switch {
	case facts.Allowed:
		return false
	case facts.Frozen:
		return facts.Machines > l.Low(facts.Asked)
	default:
		return facts.Came && facts.Machines >= l.High(facts.Asked)
	}
}

// Verdict is the freeze of the set of that name.
func (l Limits) Verdict(name string, facts Facts) freeze.Verdict {
	if !l.Frozen(facts) {
		return freeze.Verdict{}
	}
	return freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonOvershoot, Message: fmt.Sprintf(
		"MachineSet %s has %d machines that are not being deleted, and at most %d were asked for: find out what makes them, "+
			"and delete those that are too many; the work goes on when %d or fewer are left. "+
			"With the annotation %s=true a scale-down takes them",
		name, facts.Machines, facts.Asked, l.Low(facts.Asked), v1alpha1.AllowOvershootAnnotation)}
}
