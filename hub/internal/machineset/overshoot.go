package machineset

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinestate"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// surplus is what one reconciliation knows of Machines that were not asked for.
type surplus struct {
	facts         plan.OvershootFacts
	look, stored  plan.MachinesSeen
	frozen, known bool
}

// measure gathers what a judgement rests on, as long as the status is still the stored one.
func (c *Controller) measure(s *scope) {
	over := &s.surplus
	over.facts = plan.OvershootOf(s.set, s.deployment, s.counts.Active)
	over.look = plan.MachinesSeen{Machines: s.counts.Total, Generation: s.set.Generation}
	over.stored = plan.MachinesSeen{Machines: int(s.set.Status.Replicas), Generation: s.set.Status.ObservedGeneration}
	if s.deployment != nil {
		over.look.Above, over.stored.Above = s.deployment.Generation, s.deployment.Status.ObservedGeneration
	}
	// What is adopted may be a surplus, and must never be one that freezes.
	s.input.MostOwned = c.Safety.High(over.facts.Asked) - 1
}

// checkOvershoot freezes the set if it has far too many Machines. While the cache does not show yet what the set itself has
// made, it is not known what has come.
func (c *Controller) checkOvershoot(s *scope) {
	over := &s.surplus
	over.known = s.input.Outstanding == 0
	over.facts.Came = over.known && s.known.arrivals.Grown(over.look, over.stored)
	verdict := freeze.OfOvershoot(c.Safety.Message(s.set.Name, over.facts))
	over.frozen = verdict.Frozen
	if over.frozen {
		s.frozen, s.input.Frozen = verdict.Besides(s.frozen), true
		s.known.marks.restart()
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

// sweep wakes the sets that have, or are said to have, more Machines than replicas, every period until ctx ends: a
// safety net below the events.
func (c *Controller) sweep(ctx context.Context, q queue) error {
	go func() {
		ticker := time.NewTicker(c.SafetyPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for _, request := range c.overfull(ctx) {
				q.Add(request)
			}
		}
	}()
	return nil
}

// overfull returns the sets that have more Machines than replicas, or are frozen for it.
func (c *Controller) overfull(ctx context.Context) []request {
	machines := map[types.UID]int{}
	err := machinestate.Each(ctx, c.Client, func(machine *v1alpha1.Machine) {
		if owner := metav1.GetControllerOfNoCopy(machine); owner != nil && machine.DeletionTimestamp == nil {
			machines[owner.UID]++
		}
	}, client.UnsafeDisableDeepCopy)
	sets := &v1alpha1.MachineSetList{}
	if err == nil {
		err = c.Client.List(ctx, sets, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Looking for machine sets with too many machines")
		return nil
	}
	var requests []request
	for i := range sets.Items {
		set := &sets.Items[i]
		if machines[set.UID] > replicas(set) || plan.OvershootOf(set, nil, 0).Frozen {
			requests = append(requests, reconciler.Request(set.Namespace, set.Name))
		}
	}
	return requests
}
