package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

// caller is a PreThawSync of three Machines, whose looks the test makes.
type caller struct {
	*env
	*PreThawSync
	clock *clocktesting.FakePassiveClock
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// result is what a look returns; during, if not nil, runs amid it.
	result reconcile.Result
	err    error
	during func()
}

func newCaller(t *testing.T) *caller {
	t.Helper()
	b := newEnv(t)
	for _, name := range []string{"roll-a", "roll-b", "roll-c"} {
		b.create(name)
	}
	c := &caller{env: b, clock: clocktesting.NewFakePassiveClock(time.Now())}
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(c.queue.ShutDown)
	waker := NewWaker(b.namespace, b.Client, nil, nil)
	b.Expect(waker.Start(t.Context(), c.queue)).To(Succeed())
	c.PreThawSync = NewPreThawSync(waker, c.clock)
	return c
}

// left is of how many the hub is still to be told.
func (c *caller) left(freeze uint64) int {
	c.T.Helper()
	left, err := c.Run(c.T.Context(), freeze)
	c.Expect(err).NotTo(HaveOccurred())
	return left
}

// look lets one worker take what is queued, and returns the names.
func (c *caller) look() (names []string) {
	c.T.Helper()
	inner := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		if c.during != nil {
			c.during()
		}
		return c.result, c.err
	})
	for c.queue.Len() > 0 {
		request, _ := c.queue.Get()
		_, _ = c.Wrap(inner).Reconcile(c.T.Context(), request)
		c.queue.Done(request)
		names = append(names, request.Name)
	}
	return names
}

func TestRollCall(t *testing.T) {
	t.Run("should look at every machine once, for each freeze", func(t *testing.T) {
		c := newCaller(t)
		c.Expect(c.left(1)).To(Equal(3))
		c.Expect(c.look()).To(ConsistOf("roll-a", "roll-b", "roll-c"))
		c.Expect(c.left(1)).To(BeZero())
		c.Expect(c.look()).To(BeEmpty())
		c.Expect(c.left(2)).To(Equal(3))
	})
	t.Run("should not count a look that started before", func(t *testing.T) {
		c := newCaller(t)
		c.waker.Wake("roll-a")
		c.during = func() {
			c.during = nil
			c.Expect(c.left(1)).To(Equal(3))
		}
		c.look()
		c.Expect(c.left(1)).To(BeZero(), "it was looked at again")

		c.Expect(c.left(2)).To(Equal(3))
		request, _ := c.queue.Get()
		_, err := c.Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			c.Expect(c.left(3)).To(Equal(3))
			return reconcile.Result{}, nil
		})).Reconcile(t.Context(), request)
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(c.left(3)).To(Equal(3), "it answered for the freeze before")
	})
	t.Run("should try again what could not be told, and not forever", func(t *testing.T) {
		c := newCaller(t)
		c.left(1)
		c.err = errors.New("the hub refuses it")
		c.look()
		c.Expect(c.left(1)).To(Equal(3))
		c.Expect(c.look()).To(BeEmpty(), "not at every look")
		c.clock.SetTime(c.clock.Now().Add(answerRetry))
		c.left(1)
		c.err, c.result = nil, reconcile.Result{RequeueAfter: outcome.ConflictRetry}
		c.Expect(c.look()).To(HaveLen(3))
		c.Expect(c.left(1)).To(Equal(3), "another writer came first, so nothing was told")
		for range answerTries - 2 {
			c.Expect(c.left(1)).To(Equal(3))
			c.clock.SetTime(c.clock.Now().Add(answerRetry))
			c.left(1)
			c.look()
		}
		c.Expect(c.left(1)).To(BeZero(), "one that cannot be reported does not keep all frozen")
	})
	t.Run("should let go of a machine that is gone", func(t *testing.T) {
		c := newCaller(t)
		c.left(1)
		c.result = reconcile.Result{RequeueAfter: time.Minute}
		c.look()
		c.Expect(c.left(1)).To(BeZero())
	})
}
