package machine

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// orders are what the hub wants now, as its API server tells, and what may be done now: neither a cache nor a Machine that is missing
// orders anything.
type orders struct {
	hub    Hub
	freeze Freeze
	clock  clock.PassiveClock
	// machines is what the API server itself has told of Machines, as the answer to a write too: what a cache showed earlier
	// is not acted on.
	machines relist.Tracker
	// asking is held by the one who asks whether the cluster is frozen; the others wait for the answer. asked is when it came.
	asking chan struct{}
	asked  time.Time
}

func newOrders(hub Hub, freeze Freeze, clock clock.PassiveClock) *orders {
	return &orders{hub: hub, freeze: freeze, clock: clock, asking: make(chan struct{}, 1)}
}

// isCacheBehind reports whether the cache is older than what the agent itself has written last. The hub's API server is asked: one
// that has gone back to an older state has nothing newer that could be waited for.
func (o *orders) isCacheBehind(ctx context.Context, cached *v1alpha1.Machine) bool {
	if !o.machines.Behind(cached) {
		return false
	}
	live := &v1alpha1.Machine{}
	if err := o.hub.Reader.Get(ctx, client.ObjectKeyFromObject(cached), live); err != nil {
		return true
	}
	o.machines.Observed(live)
	return o.machines.Behind(cached)
}

// isDeletionOrdered asks the hub's API server whether this very Machine is to be deleted. Neither a cache nor a
// Machine that is missing gives that order, and a freeze suspends it.
func (o *orders) isDeletionOrdered(ctx context.Context, machine *v1alpha1.Machine) (bool, error) {
	live, err := o.readLive(ctx, machine)
	if err != nil {
		return false, err
	}
	if live == nil {
		klog.FromContext(ctx).Info("Removing nothing: the machine is being deleted in the cache but missing on the hub")
		return false, nil
	}
	if live.DeletionTimestamp.IsZero() {
		return false, nil
	}
	return true, o.checkPermitted(ctx)
}

// readLive asks the hub's API server for this very Machine; nil if it has none.
func (o *orders) readLive(ctx context.Context, machine *v1alpha1.Machine) (*v1alpha1.Machine, error) {
	live := &v1alpha1.Machine{}
	err := o.hub.Reader.Get(ctx, client.ObjectKeyFromObject(machine), live)
	if apierrors.IsNotFound(err) || err == nil && live.UID != machine.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting the machine from the hub before removing anything: %w", err)
	}
	return live, nil
}

// checkPermitted asks the hub before something comes or goes for it. A freeze that was ordered a moment ago counts too, and a hub
// that was restored a moment ago, and has told the cache what held long ago, is not the one that gives this agent its orders.
func (o *orders) checkPermitted(ctx context.Context) error {
	if err := o.refreshOnce(ctx); err != nil {
		return fmt.Errorf("asking the hub whether the cluster is frozen: %w", err)
	}
	return o.freeze.Check()
}

// refreshOnce asks the hub, unless it has just answered: a hundred Machines that are drained at once ask once.
func (o *orders) refreshOnce(ctx context.Context) error {
	select {
	case o.asking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-o.asking }()
	now := o.clock.Now()
	if age := now.Sub(o.asked); age >= 0 && age < refreshAge {
		return nil
	}
	if err := o.hub.Refresh(ctx); err != nil {
		return err
	}
	o.asked = now
	return nil
}

// patchMachine changes a Machine outside its status. The lock keeps a change that was decided on an old Machine
// from being written. What the status will say is not touched.
func (o *orders) patchMachine(ctx context.Context, machine *v1alpha1.Machine, change func(*v1alpha1.Machine)) error {
	before := machine.DeepCopy()
	change(machine)
	if err := o.hub.Client.Patch(ctx, machine, reconciler.MergeFromWithLock(before), client.FieldOwner(node.FieldManager)); err != nil {
		before.DeepCopyInto(machine)
		return fmt.Errorf("patching Machine %s: %w", machine.Name, err)
	}
	if machine.DeletionTimestamp.IsZero() { // The last write to one that is being deleted lets it go.
		o.machines.Observed(machine)
	}
	return nil
}

// limitedMessage is the same for all that wait: it must not be written again with every place in the queue.
const limitedMessage = "after a freeze the number of machines drained or removed per minute is limited for a while: waiting for its turn"

// isRateLimited reports whether a Machine has to wait before anything is taken from it, and has it looked at again in time.
// That wait counts for no deadline of its drain.
func (o *orders) isRateLimited(s *scope) bool {
	wait, waited := o.freeze.Take(s.Machine.UID)
	s.Elapsed.Drain = max(s.Elapsed.Drain-waited, 0)
	if wait > 0 {
		s.recheckWithin(wait)
	}
	return wait > 0
}

func limitedReport() *drain.Report {
	return &drain.Report{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonThawLimited, Message: limitedMessage}
}
