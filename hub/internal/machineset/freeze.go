package machineset

import (
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// findFreeze returns the first cause that freezes set, other than an overshoot: that needs its Machines.
func (c *Controller) findFreeze(set *v1alpha1.MachineSet, found related) freeze.Verdict {
	frozen := freeze.First(
		freeze.OfAnnotation("MachineSet", set),
		freeze.OfCluster(set.Spec.ClusterName, set.Namespace, found.cluster),
		c.Agents.Verdict(found.cluster),
	)
	if !frozen.Frozen && found.deployment != nil {
		frozen = freeze.OfDeployment(found.deployment)
		if frozen.Reason == v1alpha1.ReasonOvershoot {
			// With that reason, a set would be taken for one that has far too many Machines itself.
			frozen.Reason = v1alpha1.ReasonDeploymentOvershoot
		}
	}
	return frozen
}

// setFrozenCondition reports what freezes the set. WriteLabel repeats its reason.
func (s *scope) setFrozenCondition(now time.Time) {
	if !s.frozen.Passing {
		conditions.Set(&s.set.Status.Conditions, s.frozen.Condition(s.set.Generation), now)
	}
}

// surplus is what one reconciliation knows of Machines that were not asked for.
type surplus struct {
	facts         plan.OvershootFacts
	look, stored  plan.MachinesSeen
	frozen, known bool
}

// gatherOvershootFacts gathers what checkOvershoot judges by, as long as the status is still the stored one.
func (c *Controller) gatherOvershootFacts(s *scope) {
	over := &s.surplus
	over.facts = plan.OvershootOf(s.set, s.deployment, s.counts.Active)
	over.look = plan.MachinesSeen{Machines: s.counts.Total, Generation: s.set.Generation}
	over.stored = plan.MachinesSeen{Machines: int(s.set.Status.Replicas), Generation: s.set.Status.ObservedGeneration}
	if s.deployment != nil {
		over.look.Above, over.stored.Above = s.deployment.Generation, s.deployment.Status.ObservedGeneration
	}
	// What is adopted may be a surplus, and must never be one that freezes.
	s.input.MostOwned = c.Safety.FreezeAt(over.facts.Asked) - 1
}

// checkOvershoot freezes the set if it has far too many Machines. While the cache does not show yet what the set itself has
// made, it is not known what has come.
func (c *Controller) checkOvershoot(s *scope) {
	over := &s.surplus
	over.known = s.input.Outstanding == 0
	over.facts.Grown = over.known && s.known.arrivals.Grown(over.look, over.stored)
	verdict := freeze.OfOvershoot(c.Safety.DescribeOvershoot(s.set.Name, over.facts))
	over.frozen = verdict.Frozen
	if over.frozen {
		s.frozen, s.input.Frozen = verdict.Besides(s.frozen), true
		s.known.marks.restartMarks()
	}
}

// noteArrivals keeps what was seen for the next reconciliation, unless it is what freezes the set and the status does
// not say so yet: should that not be stored, the next reconciliation comes to the same judgement.
func (s *scope) noteArrivals() {
	over := &s.surplus
	if over.known && (!over.frozen || over.facts.Frozen) {
		s.known.arrivals.Record(over.look, over.stored)
	}
}
