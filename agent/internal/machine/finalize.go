package machine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine/status"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// finalize takes a deleted Machine apart, as far as it goes now.
func (c *Controller) finalize(ctx context.Context, machine *v1alpha1.Machine) (reconciler.Next, error) {
	if !controllerutil.ContainsFinalizer(machine, v1alpha1.MachineFinalizer) {
		c.forget(machine)
		return reconciler.Next{}, nil
	}
	s := &scope{}
	s.Machine, s.Frozen = machine, c.frozen()
	if s.Frozen {
		c.reportDeletion(s)
		return reconciler.Next{}, nil
	}
	ordered, err := c.deletionOrdered(ctx, machine)
	if err != nil || !ordered {
		return reconciler.Next{After: conflictRetry}, err
	}
	gone, err := c.removeInstances(ctx, s)
	if err != nil || !gone {
		c.reportDeletion(s)
		return reconciler.Next{After: s.recheckAfter}, err
	}
	gone, err = c.removeNode(ctx, s)
	if err != nil || !gone {
		c.reportDeletion(s)
		return reconciler.Next{After: nodeDeletionRetry}, err
	}
	if err := c.Requests.Remove(ctx, machine.Name); err != nil {
		return reconciler.Next{}, fmt.Errorf("removing the certificate requests of node %s: %w", machine.Name, err)
	}
	err = c.patchMachine(ctx, machine, func(machine *v1alpha1.Machine) {
		controllerutil.RemoveFinalizer(machine, v1alpha1.MachineFinalizer)
	})
	if client.IgnoreNotFound(err) != nil {
		return reconciler.Next{}, fmt.Errorf("removing the finalizer: %w", err)
	}
	c.forget(machine)
	return reconciler.Next{}, nil
}

// deletionOrdered asks the hub's API server whether this very Machine is to be deleted. Neither a cache nor a
// Machine that is missing gives that order, and a freeze suspends it.
func (c *Controller) deletionOrdered(ctx context.Context, machine *v1alpha1.Machine) (bool, error) {
	live := &v1alpha1.Machine{}
	err := c.HubReader.Get(ctx, client.ObjectKeyFromObject(machine), live)
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Info("Removing nothing: the machine is being deleted in the cache and missing on the hub")
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("getting the machine from the hub before removing anything: %w", err)
	}
	if live.UID != machine.UID || live.DeletionTimestamp.IsZero() {
		return false, nil
	}
	// A freeze that was ordered a moment ago counts too.
	if err := c.Refresh(ctx); err != nil {
		return false, fmt.Errorf("asking the hub whether the cluster is frozen: %w", err)
	}
	return true, c.Freeze.Check()
}

// removeInstances lets every driver remove what it has for the Machine, whatever its configuration says by now.
// It reports true when there is nothing left.
func (c *Controller) removeInstances(ctx context.Context, s *scope) (bool, error) {
	gone := true
	s.InstanceKnown = true
	for _, name := range c.providerNames() {
		instance, err := c.Drivers[name].Get(ctx, driver.Request{Machine: s.Machine.DeepCopy()})
		var notFound *driver.NotFoundError
		switch {
		case errors.As(err, &notFound):
			if notFound.ProviderID != "" {
				s.providerIDs = append(s.providerIDs, notFound.ProviderID)
			}
		case err != nil:
			s.InstanceKnown = false
			return false, fmt.Errorf("looking for the instance at provider %q: %w", name, err)
		default:
			gone = false
			s.take(instance)
			if instance.State == driver.Deleting {
				continue
			}
		}
		// Without an instance, too: a Secret may be left of it.
		if err := c.Drivers[name].Delete(ctx, s.Machine.DeepCopy()); err != nil {
			return false, fmt.Errorf("deleting the instance at provider %q: %w", name, err)
		}
	}
	if s.Machine.Spec.ProviderID != nil {
		s.providerIDs = append(s.providerIDs, *s.Machine.Spec.ProviderID)
	}
	return gone, nil
}

// removeNode deletes the Machine's Node, whose kubelet has ended by now. It reports true when there is none.
func (c *Controller) removeNode(ctx context.Context, s *scope) (bool, error) {
	found := nodeOf(s.Machine)
	err := c.TargetReader.Get(ctx, client.ObjectKeyFromObject(found), found)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("getting node %s: %w", found.Name, err)
	}
	if !c.owns(s, found) {
		klog.FromContext(ctx).Info("Leaving a node that is not this machine's", "Node", klog.KObj(found), "providerID", found.Spec.ProviderID)
		return true, nil
	}
	s.Node, s.NodeKnown = found, true
	if found.DeletionTimestamp.IsZero() {
		if err := c.Target.Delete(ctx, found, client.Preconditions{UID: &found.UID}); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting node %s: %w", found.Name, err)
		}
	}
	err = c.TargetReader.Get(ctx, client.ObjectKeyFromObject(found), nodeOf(s.Machine))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting node %s: %w", found.Name, err)
	}
	return apierrors.IsNotFound(err), nil
}

func (c *Controller) owns(s *scope, found *corev1.Node) bool {
	if found.Spec.ProviderID == "" {
		return node.IsOf(found, s.Machine, "")
	}
	for _, id := range s.providerIDs {
		if node.IsOf(found, s.Machine, id) {
			return true
		}
	}
	return false
}

// reportDeletion puts the status of a Machine that is being deleted into it.
func (c *Controller) reportDeletion(s *scope) {
	input := status.Input{Observation: s.Observation, Problem: s.problem, Now: c.Clock.Now()}
	s.Machine.Status = status.Compute(input)
}

func (c *Controller) forget(machine *v1alpha1.Machine) {
	c.stalls.forget(machine.UID)
	c.replaced.Delete(machine.UID)
	c.repairs.DeleteEntry(string(machine.UID))
}
