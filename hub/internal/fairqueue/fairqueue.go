// Package fairqueue shares the workers of a controller between namespaces, so that the objects of one do not hold up those of
// another, however many there are and however long each of them takes. docs/design/fair-queues.md says why.
package fairqueue

import (
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// New is the type of controller.Options.NewQueue.
type New = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

// queue is a workqueue that hands requests out namespace by namespace.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	lanes *lanes
}

// NewQueue makes queues for controllers with so many workers. While one namespace has all but one of them, that one is left to the others.
// Names, back-off, delays and metrics are those of every workqueue.
//
// A worker that calls Done has to call Get next, as those of controller-runtime do: no other one is woken for what the namespace has left.
func NewQueue(workers int) New { return newQueue(workers, clock.RealClock{}) }

func newQueue(workers int, clock clock.WithTicker) New {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		waiting := newLanes(max(workers-1, 1))
		typed := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Clock: clock, Queue: waiting})
		delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Clock: clock, Queue: typed})
		return &queue{workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
			Name: name, Clock: clock, DelayingQueue: delaying,
		}), waiting}
	}
}

// Len is the number of requests that wait, also for their namespace to have a worker less.
func (q *queue) Len() int { return q.lanes.countWaiting() }

// Done says that the work on request has ended.
func (q *queue) Done(request reconcile.Request) {
	q.lanes.release(request)
	q.TypedRateLimitingInterface.Done(request)
}

// ShutDown ends the workers at once. What waits is dropped, as by the queue of controller-runtime: a hub that has lost its Lease must not
// work on.
func (q *queue) ShutDown() {
	q.lanes.close(true)
	q.TypedRateLimitingInterface.ShutDown()
}

// ShutDownWithDrain ends the workers when nothing waits any more, and returns then.
func (q *queue) ShutDownWithDrain() {
	q.lanes.close(false)
	q.TypedRateLimitingInterface.ShutDownWithDrain()
}
