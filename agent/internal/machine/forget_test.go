package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	machineevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// remembering is a controller that has a stall of a Machine in its memory.
func remembering(uid types.UID) (*Controller, *pace) {
	told := &pace{}
	clock := clocktesting.NewFakeClock(time.Now())
	orders := newOrders(Hub{}, Freeze{ThawLimiter: told}, clock)
	c := &Controller{
		orders: orders, creation: newCreation(nil, orders, nil, clock), nodes: &nodes{target: Target{Drain: drain.New(nil, clock, nil)}},
		times: &lifetimes{}, spans: &spans{}, updates: &updates{turns: newSequencer(nil, nil)},
		reports: &reports{stalls: newStalls(DefaultStallAfter), events: &recorder{}},
	}
	c.reports.stalls.byUID[uid] = stall{}
	return c, told
}

// Edge case: Forced Machines were remembered forever.
func TestMachinesThatAreGoneAreForgotten(t *testing.T) {
	machine := func(uid types.UID) *v1alpha1.Machine {
		m := &v1alpha1.Machine{}
		m.Namespace, m.Name, m.UID = "c1", "m1", uid
		return m
	}
	type events = workqueue.TypedRateLimitingInterface[reconcile.Request]
	for name, test := range map[string]struct {
		happen func(c *Controller, to events)
		gone   []types.UID
	}{
		"should forget one that is gone, whatever happened to its finalizer": {func(c *Controller, to events) {
			c.Handler().Delete(t.Context(), machineevent.TypedDeleteEvent[*v1alpha1.Machine]{Object: machine("u1")}, to)
		}, []types.UID{"u1"}},
		"should forget the predecessor of one of its name": {func(c *Controller, to events) {
			c.Handler().Update(t.Context(), machineevent.TypedUpdateEvent[*v1alpha1.Machine]{ObjectOld: machine("u1"), ObjectNew: machine("u2")}, to)
		}, []types.UID{"u1"}},
		"should remember one that has changed": {func(c *Controller, to events) {
			c.Handler().Update(t.Context(), machineevent.TypedUpdateEvent[*v1alpha1.Machine]{ObjectOld: machine("u1"), ObjectNew: machine("u1")}, to)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			to := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer to.ShutDown()
			c, told := remembering("u1")
			test.happen(c, to)
			g.Expect(told.forgotten).To(Equal(test.gone))
			g.Expect(c.reports.stalls.byUID).To(HaveLen(1 - len(test.gone)))
			g.Expect(to.Len()).To(Equal(1), "it is looked at")
		})
	}
}
