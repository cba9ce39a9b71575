package machineset

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func (c *Controller) adoptOrphans(ctx context.Context, s *scope, orphans []plan.Machine) error {
	set, template := s.set, s.template
	adopted, err := c.patchMachines(ctx, set, orphans, func(machine *v1alpha1.Machine) bool {
		if metav1.GetControllerOf(machine) != nil || machine.DeletionTimestamp != nil {
			return false
		}
		machine.OwnerReferences = append(machine.OwnerReferences, ownerReference(set))
		template.Give(machine)
		if !slices.Contains(machine.Finalizers, v1alpha1.MachineFinalizer) {
			machine.Finalizers = append(machine.Finalizers, v1alpha1.MachineFinalizer)
		}
		return true
	})
	s.known.arrivals.AddCreated(adopted)
	if adopted > 0 {
		adoptedEvent(adopted).Send(c.Recorder, set)
	}
	if err != nil {
		return fmt.Errorf("adopting machines: %w", err)
	}
	return nil
}

func (c *Controller) releaseMachines(ctx context.Context, set *v1alpha1.MachineSet, strangers []plan.Machine) error {
	released, err := c.patchMachines(ctx, set, strangers, func(machine *v1alpha1.Machine) bool {
		kept := slices.DeleteFunc(slices.Clone(machine.OwnerReferences), func(owner metav1.OwnerReference) bool {
			return owner.UID == set.UID
		})
		changed := len(kept) != len(machine.OwnerReferences)
		machine.OwnerReferences = kept
		delete(machine.Labels, v1alpha1.MachineSetNameLabel)
		return changed
	})
	if released > 0 {
		releasedEvent(released).Send(c.Recorder, set)
	}
	if err != nil {
		return fmt.Errorf("releasing machines: %w", err)
	}
	return nil
}

// patchMachines patches each of machines that change wants changed. It reads each one live and writes with an optimistic
// lock: owner references are a list, and a merge patch replaces it whole.
func (c *Controller) patchMachines(ctx context.Context, set *v1alpha1.MachineSet, machines []plan.Machine, change func(*v1alpha1.Machine) bool) (int, error) {
	return inParallel(len(machines), func(i int) error {
		machine := &v1alpha1.Machine{}
		key := types.NamespacedName{Namespace: set.Namespace, Name: machines[i].Name}
		if err := c.Live.Get(ctx, key, machine); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := machine.DeepCopy()
		if machine.UID != machines[i].UID || !change(machine) {
			return nil
		}
		return client.IgnoreNotFound(c.Client.Patch(ctx, machine, reconciler.MergeFromWithLock(before)))
	})
}

// updateMachines brings Machines up to date with the template, with one write each. After a refusal it waits longer and longer, and
// tries a single Machine first.
func (c *Controller) updateMachines(ctx context.Context, s *scope, outdated []plan.Machine) error {
	if len(outdated) == 0 {
		return nil
	}
	outdated = outdated[:min(len(outdated), creationsAtOnce)]
	updates := &s.known.updateBackoff
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
	if err == nil {
		updates.noteAccepted(c.Clock.Now())
		return nil
	}
	failure := &outcome.Failure{Reason: v1alpha1.ReasonMachineUpdateFailed, Err: fmt.Errorf(
		"bringing machines up to date with the template (%d of %d done): %w", updated, len(outdated), err)}
	if _, settled := outcome.Retry(err); !settled {
		updates.noteRefused(failure, updated, c.Clock.Now())
	}
	return failure
}

// unmarkMachines takes marks for deletion off that no scale-down has followed.
func (c *Controller) unmarkMachines(ctx context.Context, set *v1alpha1.MachineSet, stale []plan.Machine) error {
	unmarked, err := c.patchMachines(ctx, set, stale, func(machine *v1alpha1.Machine) bool {
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
