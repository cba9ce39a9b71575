package freeze

import (
	"context"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Checker says whether something may be changed now.
type Checker interface {
	// Check returns nil, or *Error while frozen.
	Check() error
}

// OnThaw calls wake each time that changes receives and nothing is frozen, until ctx ends. The changes are those that the
// caller has subscribed to for itself.
func OnThaw(ctx context.Context, checker Checker, changes <-chan struct{}, wake func(context.Context)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			if checker.Check() == nil {
				wake(ctx)
			}
		}
	}
}

// Gate refuses changes while the agent is frozen. It wraps the transports of the agent's clients, so that it is asked for
// each attempt that is sent, also for one that client-go repeats by itself, and the drivers, which may have clients of their
// own. What it wraps must not be used without it.
type Gate struct {
	checker Checker
	metrics *Metrics
}

// NewGate returns a Gate that checker opens and closes.
func NewGate(checker Checker, metrics *Metrics) *Gate {
	return &Gate{checker: checker, metrics: metrics}
}

// pass returns nil when method may go on.
func (g *Gate) pass(ctx context.Context, method string) error {
	err := g.checker.Check()
	if err == nil {
		err = outdated(ctx)
	}
	if err != nil {
		g.metrics.refused.WithLabelValues(method).Inc()
	}
	return err
}

// Driver lets Get and List through and refuses every change while frozen.
func (g *Gate) Driver(inner driver.Driver) driver.Driver { return &gatedDriver{inner: inner, gate: g} }

type gatedDriver struct {
	inner driver.Driver
	gate  *Gate
}

func (d *gatedDriver) Create(ctx context.Context, request driver.Request) (driver.Instance, error) {
	if err := d.gate.pass(ctx, "DriverCreate"); err != nil {
		return driver.Instance{}, err
	}
	return d.inner.Create(ctx, request)
}

func (d *gatedDriver) Update(ctx context.Context, request driver.Request) (driver.Instance, error) {
	if err := d.gate.pass(ctx, "DriverUpdate"); err != nil {
		return driver.Instance{}, err
	}
	return d.inner.Update(ctx, request)
}

func (d *gatedDriver) CheckUpdate(ctx context.Context, request driver.Request) error {
	return d.inner.CheckUpdate(ctx, request)
}

func (d *gatedDriver) Get(ctx context.Context, request driver.Request) (driver.Instance, error) {
	return d.inner.Get(ctx, request)
}

func (d *gatedDriver) Delete(ctx context.Context, machine *v1alpha1.Machine) error {
	if err := d.gate.pass(ctx, "DriverDelete"); err != nil {
		return err
	}
	return d.inner.Delete(ctx, machine)
}

func (d *gatedDriver) List(ctx context.Context) ([]driver.Instance, error) { return d.inner.List(ctx) }

// Count implements driver.Counter.
func (d *gatedDriver) Count(ctx context.Context) (int, error) { return driver.Count(ctx, d.inner) }
