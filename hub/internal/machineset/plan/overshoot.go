package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// Frozen reports whether facts are those of a set that has to be frozen.
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
	return fmt.Sprintf("MachineSet %s has %d machines that are not being deleted, but at most %d are wanted: find out what creates them, "+
		"and delete the surplus; the set resumes when %d or fewer are left. "+
		"With the annotation %s=true a scale-down deletes them",
		name, facts.Machines, facts.Asked, l.Low(facts.Asked), v1alpha1.AllowOvershootAnnotation)
}

// limits are those fields of a Machine that a person may set on it although its MachineSet's template gives them, too.
type limits struct {
	Creation                *metav1.Duration `json:"creationTimeout,omitempty"`
	Health                  *metav1.Duration `json:"healthTimeout,omitempty"`
	Drain                   *metav1.Duration `json:"drainTimeout,omitempty"`
	UnhealthyNodeConditions []string         `json:"unhealthyNodeConditions,omitempty"`
}

func limitsOf(body *v1alpha1.MachineTemplateBody) limits {
	l := limits{UnhealthyNodeConditions: body.UnhealthyNodeConditions}
	if timeouts := body.Timeouts; timeouts != nil {
		l.Creation, l.Health, l.Drain = timeouts.Creation, timeouts.Health, timeouts.Drain
	}
	return l
}

// putInto makes l the limits of body.
func (l limits) putInto(body *v1alpha1.MachineTemplateBody) {
	body.UnhealthyNodeConditions, body.Timeouts = l.UnhealthyNodeConditions, nil
	if l.Creation != nil || l.Health != nil || l.Drain != nil {
		body.Timeouts = &v1alpha1.MachineTimeouts{Creation: l.Creation, Health: l.Health, Drain: l.Drain}
	}
}

// limitsAfter is what l, a Machine's, becomes when its template gives wanted and gave before. What it lacks, and what it still
// has from before, it takes from wanted; anything else a user has set on this Machine.
func (l limits) limitsAfter(before, wanted limits) limits {
	l.Creation = timeoutAfter(l.Creation, before.Creation, wanted.Creation)
	l.Health = timeoutAfter(l.Health, before.Health, wanted.Health)
	l.Drain = timeoutAfter(l.Drain, before.Drain, wanted.Drain)
	if len(l.UnhealthyNodeConditions) == 0 || slices.Equal(l.UnhealthyNodeConditions, before.UnhealthyNodeConditions) {
		l.UnhealthyNodeConditions = wanted.UnhealthyNodeConditions
	}
	return l
}

func timeoutAfter(has, before, wanted *metav1.Duration) *metav1.Duration {
	if has == nil || before != nil && has.Duration == before.Duration {
		return wanted
	}
	return has
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

// MarkTime reads the time from a mark for deletion, as cluster-autoscaler writes it ("2026-01-31 10:00:00.123456
// +0000 UTC m=+1.5", which is Go's own form) or in RFC 3339. It reports false for any other value.
func MarkTime(value string) (time.Time, bool) {
	value, _, _ = strings.Cut(value, " m=")
	for _, layout := range []string{"2006-01-02 15:04:05.999999999 -0700 MST", time.RFC3339Nano} {
		if at, err := time.Parse(layout, value); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
