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

// FreezeAt is the number of Machines at which a set freezes, and ThawAt the one at which it thaws.
func (l OvershootLimits) FreezeAt(asked int) int { return asked + l.Up }

// ThawAt is never less than what was asked for, as long as Down is no more than Up.
func (l OvershootLimits) ThawAt(asked int) int { return l.FreezeAt(asked) - l.Down }

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

// Frozen reports whether facts are those of a set that has to be frozen.
func (l OvershootLimits) Frozen(facts OvershootFacts) bool {
	switch {
	case facts.Allowed:
		return false
	case facts.Frozen:
		return facts.Machines > l.ThawAt(facts.Asked)
	default:
		return facts.Grown && facts.Machines >= l.FreezeAt(facts.Asked)
	}
}

// DescribeOvershoot says of the set of that name why it is frozen; it is empty if facts are not those of a set that has to be.
func (l OvershootLimits) DescribeOvershoot(name string, facts OvershootFacts) string {
	if !l.Frozen(facts) {
		return ""
	}
	return fmt.Sprintf("MachineSet %s has %d machines that are not being deleted, but at most %d are wanted: find out what creates them, "+
		"and delete the surplus; the set resumes when %d or fewer are left. "+
		"With the annotation %s=true a scale-down deletes them",
		name, facts.Machines, facts.Asked, l.ThawAt(facts.Asked), v1alpha1.AllowOvershootAnnotation)
}

// MachinesSeen is what the hub sees of a set at one moment.
type MachinesSeen struct {
	// Machines of the set, those being deleted too.
	Machines int
	// Generation of the set, and Above that of its deployment, 0 without one.
	Generation, Above int64
}

// ArrivalTracker remembers how many Machines a set has had, to tell those that came by themselves from those that the set
// made and from those that are left of more. The zero value has seen nothing.
type ArrivalTracker struct {
	last   MachinesSeen
	looked bool
	made   int
}

// Grown reports whether Machines have come since the last look that the set has not made. The first look compares with
// reported, what the status says of the set. If a user has changed what is asked for since the last look, it is not
// known what has come before the change and what after it: then none has.
func (a *ArrivalTracker) Grown(now, reported MachinesSeen) bool {
	last := a.last
	if !a.looked {
		last = reported
	}
	return now.Generation == last.Generation && now.Above == last.Above && now.Machines > last.Machines
}

// Record keeps a look for the next one, with what the set has made since.
func (a *ArrivalTracker) Record(now, reported MachinesSeen) {
	last := a.last
	if !a.looked {
		last = reported
	}
	if now.Generation != last.Generation || now.Above != last.Above {
		// The look may be behind what was made before the change.
		now.Machines = max(now.Machines, last.Machines)
	}
	now.Machines += a.made
	a.last, a.looked, a.made = now, true, 0
}

// AddCreated notes Machines that the set has made or adopted since the look that is noted next.
func (a *ArrivalTracker) AddCreated(count int) { a.made += count }
