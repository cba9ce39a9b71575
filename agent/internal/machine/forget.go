package machine

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	machineevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Handler returns what the controller does with the events of Machines: it looks at those that come, change or go, and
// forgets those that are gone. A Machine that had no finalizer, or lost it by force, goes without a reconcile that could
// do so.
func (c *Controller) Handler() handler.TypedEventHandler[*v1alpha1.Machine, reconcile.Request] {
	return &forgetting{controller: c}
}

type forgetting struct {
	handler.TypedEnqueueRequestForObject[*v1alpha1.Machine]
	controller *Controller
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Update implements handler.TypedEventHandler. After a watch was cut off, a Machine and its successor of the same name
// are two versions of one object.
func (f *forgetting) Update(ctx context.Context, change machineevent.TypedUpdateEvent[*v1alpha1.Machine], to queue) {
	if change.ObjectOld.UID != change.ObjectNew.UID {
		f.controller.forget(change.ObjectOld)
	}
	f.TypedEnqueueRequestForObject.Update(ctx, change, to)
}

// Delete implements handler.TypedEventHandler.
func (f *forgetting) Delete(ctx context.Context, gone machineevent.TypedDeleteEvent[*v1alpha1.Machine], to queue) {
	f.controller.forget(gone.Object)
	f.TypedEnqueueRequestForObject.Delete(ctx, gone, to)
}

// forget lets go of all that is remembered of a Machine, and gives its turn to the next.
func (c *Controller) forget(machine *v1alpha1.Machine) {
	c.stalls.forget(machine.UID)
	c.events.forget(machine.UID)
	c.replaced.Delete(machine.UID)
	c.drains.Delete(machine.UID)
	c.Drain.Forget(machine.Name)
	c.repairs.DeleteEntry(string(machine.UID))
	c.ThawLimiter.Forget(machine.UID)
	c.machines.Forget(client.ObjectKeyFromObject(machine))
	c.nodes.Forget(client.ObjectKeyFromObject(nodeOf(machine)))
	c.wakeNext(machine)
}
