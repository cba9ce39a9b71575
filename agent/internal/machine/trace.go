package machine

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// traceAction carries action out in a span. A round of a drain has none: most evict nothing, and there may be thousands.
func (c *Controller) traceAction(ctx context.Context, s *scope, action Action) error {
	end := func(error) {}
	if action != DrainNode {
		if action == SetProviderID {
			c.traceRegistration(ctx, s.Machine)
		}
		ctx, end = c.tracer.Continue(ctx, "Machine."+string(action), c.traceOf(s.Machine), telemetry.Object("machine", s.Machine)...)
		klog.FromContext(ctx).V(1).Info("Carrying out action", "action", action)
	}
	err := c.confirmOrder(ctx, action)
	if err == nil {
		err = c.takeAction(ctx, s, action)
	}
	end(err)
	if action == CreateInstance && err == nil && c.tracer.On() {
		c.registering.Store(s.Machine.UID, c.Clock.Now())
	}
	return err
}

// traceOf is the trace of what was ordered of machine last. When that is done, what happens to the Machine starts traces of its own.
func (c *Controller) traceOf(machine *v1alpha1.Machine) telemetry.From {
	return telemetry.From{Traceparent: telemetry.Of(machine), Repeated: c.tracer.Settled(machine)}
}

// markSettled notes that a Machine is what was ordered, as the hub knows: its Node has been Ready since it was made or updated.
func (c *Controller) markSettled(machine *v1alpha1.Machine) {
	if wasUp(machine.Status) && machine.Status.ObservedGeneration == machine.Generation &&
		meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition) {
		c.tracer.Settle(machine)
	}
}

// traceRegistration makes a span of what the hollow node has done since its instance was made. An agent that started meanwhile
// does not know when that was.
func (c *Controller) traceRegistration(ctx context.Context, machine *v1alpha1.Machine) {
	if since, found := c.registering.LoadAndDelete(machine.UID); found {
		c.tracer.Record(ctx, "Node.Register", c.traceOf(machine), since.(time.Time), c.Clock.Now(), telemetry.Object("machine", machine)...)
	}
}

// traceReady starts the span of the write that tells the hub that a Machine is Ready; other reports have none.
func (c *Controller) traceReady(ctx context.Context, before, after *v1alpha1.Machine) (context.Context, func(error)) {
	if isReady(before) || !isReady(after) {
		return ctx, func(error) {}
	}
	return c.tracer.Continue(ctx, "Machine.ReportReady", c.traceOf(before), telemetry.Object("machine", before)...)
}
