package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine/plan"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// step carries one action out and puts what came of it into s.
func (c *Controller) step(ctx context.Context, s *scope, action plan.Action) error {
	switch action {
	case plan.AddFinalizer:
		return c.patchMachine(ctx, s.Machine, func(machine *v1alpha1.Machine) {
			controllerutil.AddFinalizer(machine, v1alpha1.MachineFinalizer)
		})
	case plan.CreateInstance:
		return c.create(ctx, s)
	case plan.UpdateInstance:
		return c.update(ctx, s)
	case plan.RemoveInstance:
		return c.removeEnded(ctx, s)
	case plan.SyncNode:
		version, err := node.Sync(ctx, c.Target, s.Node, s.desired, s.changes)
		c.nodeWrites.note(s.Node.UID, version)
		return err
	case plan.SetProviderID:
		return c.patchMachine(ctx, s.Machine, func(machine *v1alpha1.Machine) { machine.Spec.ProviderID = &s.ProviderID })
	}
	return fmt.Errorf("unknown action %q", action)
}

func (c *Controller) create(ctx context.Context, s *scope) error {
	if err := c.refuseSecondProvider(ctx, s); err != nil {
		return err
	}
	instance, err := s.driver.Create(ctx, driver.Request{Machine: s.Machine.DeepCopy(), Class: s.class})
	if err != nil {
		return err
	}
	if _, replaced := c.replaced.LoadAndDelete(s.Machine.UID); !replaced && plan.Lost(s.Observation) {
		c.Metrics.repaired("lost")
		c.events.repaired(s.Machine, "its instance was gone")
	}
	s.take(instance)
	return nil
}

// refuseSecondProvider keeps a Machine whose provider was changed from having two instances.
func (c *Controller) refuseSecondProvider(ctx context.Context, s *scope) error {
	for _, name := range c.providerNames() {
		if name == s.provider {
			continue
		}
		_, err := c.Drivers[name].Get(ctx, driver.Request{Machine: s.Machine.DeepCopy()})
		if err == nil {
			return driver.Invalid("spec.providerConfig", "provider %q has made this machine already, %q cannot: delete the machine and create another", name, s.provider)
		}
		if !errors.Is(err, driver.ErrNotFound) {
			return fmt.Errorf("asking provider %q for the machine: %w", name, err)
		}
	}
	return nil
}

func (c *Controller) update(ctx context.Context, s *scope) error {
	instance, err := s.driver.Update(ctx, driver.Request{Machine: s.Machine.DeepCopy(), Class: s.class})
	if err != nil {
		return err
	}
	if instance.State == driver.Deleting {
		c.replaced.Store(s.Machine.UID, true)
	}
	s.take(instance)
	return nil
}

// removeEnded takes an instance away that has ended; when it is gone, the next one is created.
func (c *Controller) removeEnded(ctx context.Context, s *scope) error {
	klog.FromContext(ctx).Info("Replacing the instance that has ended", "message", s.Instance.Message)
	if err := s.driver.Delete(ctx, s.Machine.DeepCopy()); err != nil {
		return err
	}
	c.replaced.Store(s.Machine.UID, true)
	c.repairs.Next(string(s.Machine.UID), c.Clock.Now())
	c.Metrics.repaired("ended")
	c.events.repaired(s.Machine, s.Instance.Message)
	return nil
}

// patchMachine changes a Machine outside its status. The lock keeps a change that was decided on an old Machine
// from being written. What the status will say is not touched.
func (c *Controller) patchMachine(ctx context.Context, machine *v1alpha1.Machine, change func(*v1alpha1.Machine)) error {
	before := machine.DeepCopy()
	change(machine)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Hub.Patch(ctx, machine, patch, client.FieldOwner(node.FieldManager)); err != nil {
		before.DeepCopyInto(machine)
		return fmt.Errorf("patching Machine %s: %w", machine.Name, err)
	}
	c.hubWrites.note(machine.UID, machine.ResourceVersion)
	return nil
}

func (c *Controller) providerNames() []string { return slices.Sorted(maps.Keys(c.Drivers)) }

func (c *Controller) providers() string { return strings.Join(c.providerNames(), ", ") }

func isConflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
