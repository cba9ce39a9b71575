package machineset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/tally"
)

// decide plans for s, which was read live. The sets of a deployment have its maxInFlight together, and are worked on at
// the same time: one that wants to replace Machines counts what the others have in flight while none of them can begin.
// The caller calls done when the plan is carried out.
func (c *Controller) decide(ctx context.Context, s *scope) (decided plan.Plan, done func(), err error) {
	decided = plan.Decide(s.input)
	if len(decided.Replace) == 0 || s.deployment == nil {
		return decided, func() {}, nil
	}
	c.replacing.Lock()
	// The selector by which s was read matches no Machine of another set.
	if err := c.countElsewhere(ctx, c.Live, s, true); err != nil {
		c.replacing.Unlock()
		return plan.Plan{}, nil, err
	}
	return plan.Decide(s.input), c.replacing.Unlock, nil
}

// countElsewhere counts what the other sets of the deployment have in flight: what machines shows, if they are to be read,
// and what this process remembers of Machines that are gone and have no replacement yet.
func (c *Controller) countElsewhere(ctx context.Context, reader client.Reader, s *scope, machines bool) error {
	if machines {
		s.elsewhere = nil
		err := tally.Each(ctx, reader, s.addElsewhere, client.InNamespace(s.set.Namespace), client.UnsafeDisableDeepCopy,
			client.MatchingLabels{v1alpha1.MachineDeploymentNameLabel: s.deployment.Name}, client.Limit(livePage))
		if err != nil {
			return fmt.Errorf("counting the replacements of the deployment's other sets: %w", err)
		}
	}
	sets := &v1alpha1.MachineSetList{}
	if err := c.Client.List(ctx, sets, client.InNamespace(s.set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the deployment's other sets: %w", err)
	}
	s.input.Elsewhere = len(s.elsewhere)
	for i := range sets.Items {
		if sibling := &sets.Items[i]; sibling.UID != s.set.UID && metav1.IsControlledBy(sibling, s.deployment) {
			s.input.Elsewhere += c.known.unseen(sibling.UID, s.elsewhere)
			s.rollout = s.rollout || replicas(sibling) > 0
		}
	}
	return nil
}

// addElsewhere notes machine if another set of the deployment is replacing it, or has made it for one.
func (s *scope) addElsewhere(machine *v1alpha1.Machine) {
	controller := metav1.GetControllerOfNoCopy(machine)
	if s.deployment == nil || controller == nil || controller.Kind != "MachineSet" || controller.UID == s.set.UID ||
		machine.Labels[v1alpha1.MachineDeploymentNameLabel] != s.deployment.Name {
		return
	}
	remediated, replacement := inReplacement(machine, tally.Of(machine, 0, s.input.Now))
	if deleting := machine.DeletionTimestamp != nil; remediated && deleting || replacement && !deleting {
		if s.elsewhere == nil {
			s.elsewhere = map[types.UID]bool{}
		}
		s.elsewhere[machine.UID] = true
	}
}

// inReplacement tells whether machine has been chosen to be replaced, and whether it was made for one that was and has
// not come up yet.
func inReplacement(machine *v1alpha1.Machine, state tally.State) (remediated, replacement bool) {
	_, remediated = machine.Annotations[v1alpha1.RemediationAnnotation]
	_, replacement = machine.Annotations[v1alpha1.ReplacesAnnotation]
	return remediated, replacement && !state.Ready && !state.Failed && comingUp(machine)
}
