package machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// takeAction carries one action out and puts what came of it into s.
func (c *Controller) takeAction(ctx context.Context, s *scope, action Action) error {
	switch action {
	case AddFinalizer:
		return c.patchMachine(ctx, s.Machine, func(machine *v1alpha1.Machine) {
			controllerutil.AddFinalizer(machine, v1alpha1.MachineFinalizer)
		})
	case CreateInstance:
		return c.createInstance(ctx, s)
	case UpdateInstance:
		return c.updateInstance(ctx, s)
	case CordonNode:
		err := node.Cordon(ctx, c.Target, s.Node, node.ForUpdate)
		s.Update.Cordoned = err == nil
		c.nodes.Observed(s.Node)
		return err
	case DrainNode:
		return c.drainForUpdate(ctx, s)
	case UncordonNode:
		err := node.Uncordon(ctx, c.Target, s.Node)
		s.Update.Cordoned = err != nil
		c.nodes.Observed(s.Node)
		return err
	case RemoveInstance:
		return c.removeEnded(ctx, s)
	case SyncNode:
		version, err := node.Sync(ctx, c.Target, s.Node, s.desired, s.changes)
		if err == nil {
			s.Node.ResourceVersion = version
			c.nodes.Observed(s.Node)
		}
		return err
	case SetProviderID:
		return c.patchMachine(ctx, s.Machine, func(machine *v1alpha1.Machine) { machine.Spec.ProviderID = &s.ProviderID })
	}
	return fmt.Errorf("unknown action %q", action)
}

func (c *Controller) createInstance(ctx context.Context, s *scope) error {
	if err := c.refuseSecondProvider(ctx, s); err != nil {
		return err
	}
	instance, err := s.driver.Create(ctx, s.driverRequest())
	if err != nil {
		return err
	}
	if s.Machine.Spec.ProviderID == nil {
		c.ThawLimiter.Created(s.Machine.UID)
	}
	if _, replaced := c.replaced.LoadAndDelete(s.Machine.UID); !replaced && Lost(s.Observation) {
		c.Metrics.countRepair(causeLost)
		c.events.recordRepair(s.Machine, "its instance was gone")
	}
	s.adoptInstance(instance)
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

func (c *Controller) updateInstance(ctx context.Context, s *scope) error {
	drained := Joined(s.Observation)
	instance, err := s.driver.Update(ctx, s.driverRequest())
	var unsupported *driver.InPlaceUnsupportedError
	if errors.As(err, &unsupported) {
		s.Update.Unsupported = unsupported.Error()
		return c.giveBack(ctx, s)
	}
	if err != nil {
		s.updateProblem = updateProblem(err, drained)
		return err
	}
	if instance.State == driver.Deleting {
		c.replaced.Store(s.Machine.UID, true)
	}
	s.adoptInstance(instance)
	s.updating = drained
	return nil
}

// giveBack takes the cordon of an update back that will not happen.
func (c *Controller) giveBack(ctx context.Context, s *scope) error {
	if !s.Update.Cordoned {
		return nil
	}
	return c.takeAction(ctx, s, UncordonNode)
}

// updateProblem says why an update has failed; a freeze, an invalid configuration, or the refresh of what a new
// Machine needs to join is no failed update.
func updateProblem(err error, drained bool) string {
	var frozen *freeze.Error
	if !drained || errors.As(err, &frozen) || errors.Is(err, driver.ErrInvalidConfiguration) {
		return ""
	}
	return err.Error()
}

// drainForUpdate evicts what can be evicted for an update that the hub, asked at this moment, still wants.
func (c *Controller) drainForUpdate(ctx context.Context, s *scope) error {
	live, err := c.readLive(ctx, s.Machine)
	if err != nil {
		return err
	}
	if live == nil || !live.DeletionTimestamp.IsZero() || live.Generation != s.Machine.Generation {
		// The event that brings the cache up to date wakes this machine.
		s.drain = &drain.Report{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining, Message: "the machine has changed meanwhile"}
		s.recheckAfter = soonerOf(s.recheckAfter, conflictRetry)
		return nil
	}
	if err := c.checkPermitted(ctx); err != nil {
		return err
	}
	// The evictions go by the Node's name: it must still be the Machine's.
	found, err := c.ownNode(ctx, s)
	if err != nil {
		return err
	}
	if found == nil {
		s.drain = &drain.Report{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining, Message: "the node is gone, or no longer the machine's"}
		s.recheckAfter = soonerOf(s.recheckAfter, conflictRetry)
		return nil
	}
	s.Node = found
	return c.drainRound(ctx, s)
}

// drainRound does one round of a drain and judges it. A round that fails ends no drain, also not after its timeout: nothing
// is known of the pods then.
func (c *Controller) drainRound(ctx context.Context, s *scope) error {
	round, err := c.Drain.Round(ctx, s.Node)
	var frozen *freeze.Error
	switch {
	case errors.As(err, &frozen):
		return err
	case err != nil:
		s.drain = &drain.Report{
			Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining,
			Message: "the pods of the node cannot be listed; the agent tries again, and its log says why",
		}
		return err
	}
	report := drain.Evaluate(round, s.Elapsed.Drain, s.Limits.Drain)
	s.drain = &report
	if !report.Over {
		s.recheckAfter = soonerOf(s.recheckAfter, report.Recheck)
		return nil
	}
	c.Drain.Forget(s.Node.Name)
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
	c.Metrics.countRepair(causeEnded)
	c.events.recordRepair(s.Machine, s.Instance.Message)
	return nil
}

// patchMachine changes a Machine outside its status. The lock keeps a change that was decided on an old Machine
// from being written. What the status will say is not touched.
func (c *Controller) patchMachine(ctx context.Context, machine *v1alpha1.Machine, change func(*v1alpha1.Machine)) error {
	before := machine.DeepCopy()
	change(machine)
	if err := c.Hub.Patch(ctx, machine, reconciler.MergeFromWithLock(before), client.FieldOwner(node.FieldManager)); err != nil {
		before.DeepCopyInto(machine)
		return fmt.Errorf("patching Machine %s: %w", machine.Name, err)
	}
	if machine.DeletionTimestamp.IsZero() { // The last write to one that is being deleted lets it go.
		c.machines.Observed(machine)
	}
	return nil
}

func (c *Controller) providerNames() []string { return slices.Sorted(maps.Keys(c.Drivers)) }

func (c *Controller) listProviders() string { return strings.Join(c.providerNames(), ", ") }

func isConflict(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// limitedMessage is the same for all that wait: it must not be written again with every place in the queue.
const limitedMessage = "for a while after a freeze only some machines are drained or removed each minute, and this one waits for its turn"

// isRateLimited reports whether a Machine has to wait before anything is taken from it, and has it looked at again in time.
// That wait counts for no deadline of its drain.
func (c *Controller) isRateLimited(s *scope) bool {
	wait, waited := c.ThawLimiter.Take(s.Machine.UID)
	s.Elapsed.Drain = max(s.Elapsed.Drain-waited, 0)
	if wait > 0 {
		s.recheckAfter = soonerOf(s.recheckAfter, wait)
	}
	return wait > 0
}

// limitUpdate lets an update in place wait, started or not.
func (c *Controller) limitUpdate(s *scope) {
	if s.Frozen || s.Update.Waiting != "" && !Begun(s.Observation) || !c.isRateLimited(s) {
		return
	}
	s.Update.Limited = limitedMessage
	if Begun(s.Observation) {
		s.drain = limitedReport()
	}
}

func limitedReport() *drain.Report {
	return &drain.Report{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonThawLimited, Message: limitedMessage}
}
