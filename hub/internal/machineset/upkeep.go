package machineset

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// update brings Machines up to date with the template, with one write each. After a refusal it waits longer and longer, and
// tries a single Machine first.
func (c *Controller) update(ctx context.Context, s *scope, outdated []plan.Machine) error {
	if len(outdated) == 0 {
		return nil
	}
	outdated = outdated[:min(len(outdated), creationsAtOnce)]
	updates := &s.known.updates
	updated, err := slowStart(len(outdated), updates.atOnce(c.Clock.Now()), func(i int) error {
		machine, found := s.outdated[outdated[i].UID]
		if !found {
			return nil // The cache has it as a stranger; its event is on the way.
		}
		before := machine.DeepCopy()
		s.template.Give(machine)
		// A list is replaced whole, and the Machine may have been moved to another set since it was read.
		return client.IgnoreNotFound(c.Client.Patch(ctx, machine, reconciler.MergeFromWithLock(before)))
	})
	if updated > 0 {
		updatedEvent(updated).Send(c.Recorder, s.set)
	}
	switch {
	case err == nil:
		updates.accepted(c.Clock.Now())
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("bringing machines up to date with the template (%d of %d done): %w", updated, len(outdated), err)
	}
	failure := &actError{v1alpha1.ReasonMachineUpdateFailed, fmt.Errorf(
		"bringing machines up to date with the template (%d of %d done): %w", updated, len(outdated), err)}
	updates.refused(failure, updated, c.Clock.Now())
	failedEvent(failure.reason, failure).Send(c.Recorder, s.set)
	return failure
}

// unmark takes marks for deletion off that no scale-down has followed.
func (c *Controller) unmark(ctx context.Context, set *v1alpha1.MachineSet, stale []plan.Machine) error {
	unmarked, err := c.change(ctx, set, stale, func(machine *v1alpha1.Machine) bool {
		_, marked := machine.Annotations[v1alpha1.DeleteMachineAnnotation]
		delete(machine.Annotations, v1alpha1.DeleteMachineAnnotation)
		return marked
	})
	if unmarked > 0 {
		unmarkedEvent(stale).Send(c.Recorder, set)
	}
	if err != nil {
		return fmt.Errorf("taking stale marks for deletion off: %w", err)
	}
	return nil
}
