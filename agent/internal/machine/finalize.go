package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// finalizeMachine takes a deleted Machine apart, as far as it goes now.
func (c *Controller) finalizeMachine(ctx context.Context, machine *v1alpha1.Machine) (reconciler.Next, error) {
	s := &scope{}
	s.Machine, s.Frozen = machine, c.isFrozen()
	if !controllerutil.ContainsFinalizer(machine, v1alpha1.MachineFinalizer) {
		return reconciler.Next{}, c.reportHolders(ctx, s)
	}
	if s.Frozen {
		c.computeStatus(s)
		return reconciler.Next{}, nil
	}
	ordered, err := c.deletionOrdered(ctx, machine)
	var frozen *freeze.Error
	if errors.As(err, &frozen) {
		s.Frozen = true
		c.computeStatus(s)
	}
	if err != nil || !ordered {
		return reconciler.Next{After: conflictRetry}, err
	}
	for _, step := range []func(context.Context, *scope) (bool, error){
		c.observeInstances, c.prepareRemoval, c.removeInstances, c.removeNode,
	} {
		if done, err := step(ctx, s); err != nil || !done {
			s.noteHolder(err)
			c.computeStatus(s)
			return reconciler.Next{After: s.recheckAfter}, err
		}
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
	if err == nil && len(machine.Finalizers) > 0 {
		return reconciler.Next{}, c.reportHolders(ctx, s)
	}
	return reconciler.Next{}, nil
}

// reportHolders says of a Machine that the agent is done with whose finalizers keep it. Pod and Node are looked for all the same: a
// user may have taken the agent's finalizer away.
func (c *Controller) reportHolders(ctx context.Context, s *scope) error {
	if len(s.Machine.Finalizers) == 0 {
		return nil
	}
	s.held, s.heldByFinalizers = heldBy(s.Machine.Finalizers), true
	s.Instance, s.Node, s.InstanceKnown, s.NodeKnown, s.drain = nil, nil, false, false, nil
	_, err := c.observeInstances(ctx, s)
	if err == nil {
		found := nodeOf(s.Machine)
		switch err = c.TargetReader.Get(ctx, client.ObjectKeyFromObject(found), found); {
		case apierrors.IsNotFound(err):
			s.NodeKnown, err = true, nil
		case err == nil:
			s.NodeKnown = true
			if node.IsOf(found, s.Machine, s.providerIDs) {
				s.Node = found
			}
		}
	}
	c.computeStatus(s)
	if s.Frozen {
		return nil
	}
	return err
}

// noteHolder notes for the status what keeps a deletion: an error, or what others hold.
func (s *scope) noteHolder(err error) {
	var frozen *freeze.Error
	switch {
	case errors.As(err, &frozen), apierrors.IsConflict(err):
	case err != nil:
		s.held = err.Error()
	case s.Node != nil && !s.Node.DeletionTimestamp.IsZero():
		s.held, s.heldByFinalizers = joinWithSemicolons("Node "+s.Node.Name+" is being deleted", heldBy(s.Node.Finalizers)), len(s.Node.Finalizers) > 0
	case s.Instance != nil && s.Instance.State == Deleting:
		s.held = s.Instance.Message
	}
}

// deletionOrdered asks the hub's API server whether this very Machine is to be deleted. Neither a cache nor a
// Machine that is missing gives that order, and a freeze suspends it.
func (c *Controller) deletionOrdered(ctx context.Context, machine *v1alpha1.Machine) (bool, error) {
	live, err := c.readLive(ctx, machine)
	if err != nil {
		return false, err
	}
	if live == nil {
		klog.FromContext(ctx).Info("Removing nothing: the machine is being deleted in the cache and missing on the hub")
		return false, nil
	}
	if live.DeletionTimestamp.IsZero() {
		return false, nil
	}
	return true, c.checkPermitted(ctx)
}

// readLive asks the hub's API server for this very Machine; nil if it has none.
func (c *Controller) readLive(ctx context.Context, machine *v1alpha1.Machine) (*v1alpha1.Machine, error) {
	live := &v1alpha1.Machine{}
	err := c.HubReader.Get(ctx, client.ObjectKeyFromObject(machine), live)
	if apierrors.IsNotFound(err) || err == nil && live.UID != machine.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting the machine from the hub before removing anything: %w", err)
	}
	return live, nil
}

// checkPermitted asks whether the agent is frozen. A freeze that was ordered a moment ago counts too.
func (c *Controller) checkPermitted(ctx context.Context) error {
	if err := c.refreshes.refreshOnce(ctx, c.Refresh); err != nil {
		return fmt.Errorf("asking the hub whether the cluster is frozen: %w", err)
	}
	return c.Freeze.Check()
}

// observeInstances looks at what every driver has for the Machine, whatever its configuration says by now.
func (c *Controller) observeInstances(ctx context.Context, s *scope) (bool, error) {
	s.ending = true
	for _, name := range c.providerNames() {
		instance, err := c.Drivers[name].Get(ctx, driver.Request{Machine: s.Machine.DeepCopy()})
		var notFound *driver.NotFoundError
		switch {
		case errors.As(err, &notFound):
			s.providerIDs = append(s.providerIDs, notFound.ProviderID)
		case err != nil:
			return false, fmt.Errorf("looking for the instance at provider %q: %w", name, err)
		default:
			s.adoptInstance(instance)
			s.ending = s.ending && instance.State == driver.Deleting
		}
	}
	s.InstanceKnown = true
	return true, nil
}

// prepareRemoval waits for hooks and empties the Node. It reports true when nothing stands in the way of the
// instance's removal any more. A step that was done before is found done.
func (c *Controller) prepareRemoval(ctx context.Context, s *scope) (bool, error) {
	if err := c.observeLimits(ctx, s); err != nil {
		return false, err
	}
	step, hooks := BeforeDrain(Removal{Machine: s.Machine, Ending: s.ending, SkipDrain: s.Limits.SkipDrain})
	// An instance that is already gone or ending is not counted against the limit.
	if step != AwaitHooks && !s.ending && c.isRateLimited(s) {
		s.drain = limitedReport()
		return false, nil
	}
	if step == Drain {
		over, err := c.drainForDeletion(ctx, s)
		if err != nil || !over {
			return false, err
		}
		step, hooks = AfterDrain(s.Machine)
	}
	if step == AwaitHooks {
		s.drain = awaitingHooks(s.drain, hooks)
	}
	// Removing a hook comes with an event.
	return step == Remove, nil
}

// awaitingHooks says what a deletion waits for; drained is what came of the drain before, nil if there was none yet.
func awaitingHooks(drained *drain.Report, hooks []string) *drain.Report {
	report := &drain.Report{
		Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAwaitingHook,
		Message: "held until these annotations are removed: " + strings.Join(hooks, ", "),
	}
	if drained != nil {
		report.Status = drained.Status
	}
	return report
}

// observeLimits finds out how a Machine that is being deleted wants to be drained. Without its class the defaults
// delay.
func (c *Controller) observeLimits(ctx context.Context, s *scope) error {
	s.Elapsed = c.elapsedTimes(s.Machine)
	var class *v1alpha1.MachineClass
	if reference := s.Machine.Spec.ProviderConfig.ValueRef; reference != nil {
		var err error
		if class, err = c.findClass(ctx, s.Machine.Namespace, reference.Name); err != nil {
			return err
		}
	}
	s.Limits = LimitsOf(s.Machine, class)
	return nil
}

// drainForDeletion cordons the Machine's Node, if there is one, and evicts its pods. It reports true when the
// drain is over.
func (c *Controller) drainForDeletion(ctx context.Context, s *scope) (bool, error) {
	found, err := c.ownNode(ctx, s)
	if err != nil || found == nil || !found.DeletionTimestamp.IsZero() {
		return err == nil, err
	}
	if err := node.Cordon(ctx, c.Target, found, node.ForDeletion); err != nil {
		return false, fmt.Errorf("cordoning the node: %w", err)
	}
	s.Node, s.NodeKnown = found, true
	if err := c.drainRound(ctx, s); err != nil {
		return false, fmt.Errorf("draining the node: %w", err)
	}
	return s.drain.Over, nil
}

// removeInstances lets every driver remove what it has for the Machine. It reports true when there is no instance
// left.
func (c *Controller) removeInstances(ctx context.Context, s *scope) (bool, error) {
	if s.Instance != nil && s.ending {
		return false, nil
	}
	for _, name := range c.providerNames() {
		// Without an instance, too: a Secret may be left of it.
		if err := c.Drivers[name].Delete(ctx, s.Machine.DeepCopy()); err != nil {
			return false, fmt.Errorf("deleting the instance at provider %q: %w", name, err)
		}
	}
	return s.Instance == nil, nil
}

// ownNode reads the Machine's Node from the API server; nil if there is none, or if it is not the Machine's. One that
// the agent has not written to yet gets the agent's annotations first: no Node is emptied or deleted without them.
func (c *Controller) ownNode(ctx context.Context, s *scope) (*corev1.Node, error) {
	found := nodeOf(s.Machine)
	err := c.TargetReader.Get(ctx, client.ObjectKeyFromObject(found), found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting node %s: %w", found.Name, err)
	}
	if !node.IsOf(found, s.Machine, s.providerIDs) {
		klog.FromContext(ctx).Info("Leaving a node that is not this machine's", "Node", klog.KObj(found), "providerID", found.Spec.ProviderID)
		return nil, nil
	}
	if err := node.Claim(ctx, c.Target, found, s.Machine); err != nil {
		return nil, fmt.Errorf("claiming the node before it is emptied: %w", err)
	}
	return found, nil
}

// removeNode deletes the Machine's Node, whose kubelet has ended by now. It reports true when there is none.
func (c *Controller) removeNode(ctx context.Context, s *scope) (bool, error) {
	found, err := c.ownNode(ctx, s)
	if err != nil || found == nil {
		return err == nil, err
	}
	s.Node, s.NodeKnown = found, true
	s.recheckAfter = nodeDeletionRetry
	if found.DeletionTimestamp.IsZero() {
		// What was proven holds for this very version of the Node.
		proven := client.Preconditions{UID: &found.UID, ResourceVersion: &found.ResourceVersion}
		if err := c.Target.Delete(ctx, found, proven); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting node %s: %w", found.Name, err)
		}
	}
	err = c.TargetReader.Get(ctx, client.ObjectKeyFromObject(found), nodeOf(s.Machine))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting node %s: %w", found.Name, err)
	}
	return apierrors.IsNotFound(err), nil
}

// refreshes keeps a hundred Machines that are drained at once from asking the hub the same a hundred times.
type refreshes struct {
	clock clock.PassiveClock
	// turn is held by the one who asks; the others wait for the answer.
	turn chan struct{}
	last time.Time
}

func newRefreshes(clock clock.PassiveClock) *refreshes {
	return &refreshes{clock: clock, turn: make(chan struct{}, 1)}
}

// refreshOnce calls refresh, unless it has just been answered.
func (r *refreshes) refreshOnce(ctx context.Context, refresh func(context.Context) error) error {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.turn }()
	now := r.clock.Now()
	if age := now.Sub(r.last); age >= 0 && age < refreshAge {
		return nil
	}
	if err := refresh(ctx); err != nil {
		return err
	}
	r.last = now
	return nil
}
