package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// removal takes Machines apart whose deletion the hub has ordered.
type removal struct {
	orders  *orders
	classes *classes
	drivers drivers
	nodes   *nodes
}

// finalizeMachine takes a deleted Machine apart, as far as it goes now. It reports whether it has found out what there is to say of it.
func (r *removal) finalizeMachine(ctx context.Context, s *scope) (seen bool, next reconciler.Next, err error) {
	if !controllerutil.ContainsFinalizer(s.Machine, v1alpha1.MachineFinalizer) {
		seen, err = r.observeHolders(ctx, s)
		return seen, next, err
	}
	if s.Frozen {
		return true, next, nil
	}
	ordered, err := r.orders.isDeletionOrdered(ctx, s.Machine)
	var frozen *freeze.Error
	s.Frozen = errors.As(err, &frozen)
	if err != nil || !ordered {
		return s.Frozen, reconciler.Next{After: conflictRetry}, err
	}
	for _, step := range []func(context.Context, *scope) (bool, error){
		r.observeInstances, r.prepareRemoval, r.removeInstances, r.nodes.removeNode,
	} {
		if done, err := step(ctx, s); err != nil || !done {
			s.noteHolder(err)
			return true, reconciler.Next{After: s.recheckAfter}, err
		}
	}
	if err := r.nodes.target.Requests.Remove(ctx, s.Machine.Name); err != nil {
		return false, next, fmt.Errorf("removing the certificate requests of node %s: %w", s.Machine.Name, err)
	}
	err = r.orders.patchMachine(ctx, s.Machine, func(machine *v1alpha1.Machine) {
		controllerutil.RemoveFinalizer(machine, v1alpha1.MachineFinalizer)
	})
	if apierrors.IsNotFound(err) {
		return false, next, nil
	}
	if err != nil {
		return false, next, fmt.Errorf("removing the finalizer: %w", err)
	}
	seen, err = r.observeHolders(ctx, s)
	return seen, next, err
}

// observeHolders looks at a Machine that the agent is done with and whose finalizers keep it. Pod and Node are looked for all the same: a
// user may have taken the agent's finalizer away. It reports false if nothing keeps the Machine.
func (r *removal) observeHolders(ctx context.Context, s *scope) (held bool, err error) {
	if len(s.Machine.Finalizers) == 0 {
		return false, nil
	}
	s.held, s.heldByFinalizers = heldBy(s.Machine.Finalizers), true
	s.Instance, s.Node, s.InstanceKnown, s.NodeKnown, s.drain = nil, nil, false, false, nil
	if _, err = r.observeInstances(ctx, s); err == nil {
		err = r.nodes.observeRest(ctx, s)
	}
	if s.Frozen {
		return true, nil
	}
	return true, err
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

// observeInstances looks at what every driver has for the Machine, whatever its configuration says by now.
func (r *removal) observeInstances(ctx context.Context, s *scope) (bool, error) {
	s.ending = true
	for _, name := range r.drivers.providerNames() {
		instance, err := r.drivers[name].Get(ctx, driver.Request{Machine: s.Machine.DeepCopy()})
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
func (r *removal) prepareRemoval(ctx context.Context, s *scope) (bool, error) {
	var err error
	if s.Limits, err = r.classes.limitsOf(ctx, s.Machine); err != nil {
		return false, err
	}
	step, hooks := BeforeDrain(Removal{Machine: s.Machine, Ending: s.ending, SkipDrain: s.Limits.SkipDrain})
	// An instance that is already gone or ending is not counted against the limit.
	if step != AwaitHooks && !s.ending && r.orders.isRateLimited(s) {
		s.drain = limitedReport()
		return false, nil
	}
	if step == Drain {
		over, err := r.drainForDeletion(ctx, s)
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
		Message: "waiting until these annotations are removed: " + strings.Join(hooks, ", "),
	}
	if drained != nil {
		report.Status = drained.Status
	}
	return report
}

// drainForDeletion cordons the Machine's Node, if there is one, and evicts its pods. It reports true when the
// drain is over.
func (r *removal) drainForDeletion(ctx context.Context, s *scope) (bool, error) {
	found, err := r.nodes.readOwnNode(ctx, s)
	if err != nil || found == nil || !found.DeletionTimestamp.IsZero() {
		return err == nil, err
	}
	if err := node.Cordon(ctx, r.nodes.target.Client, found, node.ForDeletion); err != nil {
		return false, fmt.Errorf("cordoning the node: %w", err)
	}
	s.Node, s.NodeKnown = found, true
	if err := r.nodes.drainNode(ctx, s); err != nil {
		return false, fmt.Errorf("draining the node: %w", err)
	}
	return s.drain.Over, nil
}

// removeInstances lets every driver remove what it has for the Machine. It reports true when there is no instance
// left.
func (r *removal) removeInstances(ctx context.Context, s *scope) (bool, error) {
	if s.Instance != nil && s.ending {
		return false, nil
	}
	for _, name := range r.drivers.providerNames() {
		// Without an instance, too: a Secret may be left of it.
		if err := r.drivers[name].Delete(ctx, s.Machine.DeepCopy()); err != nil {
			return false, fmt.Errorf("deleting the instance at provider %q: %w", name, err)
		}
	}
	return s.Instance == nil, nil
}
