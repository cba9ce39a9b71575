package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/driver"
)

// creation makes the instances of Machines, and makes them again when they are lost or have ended.
type creation struct {
	drivers drivers
	orders  *orders
	events  *recorder
	clock   clock.PassiveClock
	// repairs bounds how often the instance of a Machine is recreated.
	repairs *flowcontrol.Backoff
	// replaced has the UIDs of Machines whose instance the agent itself took away to recreate it, so that it
	// does not count as lost. It is only a memory.
	replaced sync.Map
}

func newCreation(drivers drivers, orders *orders, events *recorder, clock clock.Clock) *creation {
	return &creation{
		drivers: drivers, orders: orders, events: events, clock: clock,
		repairs: flowcontrol.NewFakeBackOff(repairBackoffStart, repairBackoffMax, clock),
	}
}

func (c *creation) forgetMachine(uid types.UID) {
	c.replaced.Delete(uid)
	c.repairs.DeleteEntry(string(uid))
	c.orders.freeze.Forget(uid)
}

// observeInstance asks the Machine's driver for its instance. Without a driver nothing can be made of the
// Machine, but what was made for it before is still there to be seen.
func (c *creation) observeInstance(ctx context.Context, s *scope) error {
	if s.driver != nil {
		return c.getInstance(ctx, s, s.driver, s.driverRequest())
	}
	for _, name := range c.drivers.providerNames() {
		if err := c.getInstance(ctx, s, c.drivers[name], driver.Request{Machine: s.Machine.DeepCopy()}); err != nil || s.Instance != nil {
			return err
		}
	}
	return nil
}

func (c *creation) getInstance(ctx context.Context, s *scope, from driver.Driver, request driver.Request) error {
	instance, err := from.Get(ctx, request)
	var notFound *driver.NotFoundError
	switch {
	case err == nil:
		s.InstanceKnown = true
		s.adoptInstance(instance)
		c.judgeRepair(s)
	case errors.As(err, &notFound):
		s.InstanceKnown = true
		s.providerIDs = append(s.providerIDs, notFound.ProviderID)
		if s.ProviderID == "" {
			s.ProviderID = notFound.ProviderID
		}
	default:
		s.InstanceKnown, s.problem = false, err.Error()
		return fmt.Errorf("getting the instance: %w", err)
	}
	return nil
}

// judgeRepair says whether a failed instance may be recreated now, and if not, when.
func (c *creation) judgeRepair(s *scope) {
	id, now := string(s.Machine.UID), c.clock.Now()
	s.MayRepair = true
	switch {
	case s.Instance.State != Failed:
	case c.repairs.IsInBackOffSinceUpdate(id, now):
		s.MayRepair = false
		s.recheckWithin(c.repairs.Get(id))
	case !s.Frozen && s.Terminal == nil && c.orders.isRateLimited(s):
		s.MayRepair, s.problem = false, limitedMessage
	}
}

func (c *creation) createInstance(ctx context.Context, s *scope) error {
	if err := c.refuseSecondProvider(ctx, s); err != nil {
		return err
	}
	instance, err := s.driver.Create(ctx, s.driverRequest())
	if err != nil {
		return err
	}
	if s.Machine.Spec.ProviderID == nil {
		c.orders.freeze.Created(s.Machine.UID)
	}
	if _, replaced := c.replaced.LoadAndDelete(s.Machine.UID); !replaced && Lost(s.Observation) {
		c.events.recordRepair(s.Machine, causeLost, "its instance was gone")
	}
	s.adoptInstance(instance)
	return nil
}

// refuseSecondProvider keeps a Machine whose provider was changed from having two instances.
func (c *creation) refuseSecondProvider(ctx context.Context, s *scope) error {
	for _, name := range c.drivers.providerNames() {
		if name == s.provider {
			continue
		}
		_, err := c.drivers[name].Get(ctx, driver.Request{Machine: s.Machine.DeepCopy()})
		if err == nil {
			return driver.Invalid("spec.providerConfig", "provider %q has already created this machine, so provider %q cannot: delete the machine and create another", name, s.provider)
		}
		if !errors.Is(err, driver.ErrNotFound) {
			return fmt.Errorf("asking provider %q for the machine: %w", name, err)
		}
	}
	return nil
}

// removeEnded takes an instance away that has ended; when it is gone, the next one is created.
func (c *creation) removeEnded(ctx context.Context, s *scope) error {
	klog.FromContext(ctx).Info("Replacing the instance that has ended", "message", s.Instance.Message)
	if err := s.driver.Delete(ctx, s.Machine.DeepCopy()); err != nil {
		return err
	}
	c.replaced.Store(s.Machine.UID, true)
	c.repairs.Next(string(s.Machine.UID), c.clock.Now())
	c.events.recordRepair(s.Machine, causeEnded, s.Instance.Message)
	return nil
}
