package machine

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// spans are those of what is done for Machines.
type spans struct {
	tracer *telemetry.Tracer
	clock  clock.PassiveClock
	// registering has, by the UIDs of Machines, since when their hollow nodes may register.
	registering sync.Map
}

// traceAction starts the span of an action. A round of a drain has none: most evict nothing, and there may be thousands.
func (t *spans) traceAction(ctx context.Context, machine *v1alpha1.Machine, action Action) (inSpan context.Context, end func(error)) {
	if action == DrainNode {
		return ctx, func(error) {}
	}
	if action == SetProviderID {
		t.traceRegistration(ctx, machine)
	}
	inSpan, ended := t.tracer.Continue(ctx, "Machine."+string(action), t.traceOf(machine), telemetry.Object("machine", machine)...)
	klog.FromContext(inSpan).V(1).Info("Carrying out action", "action", action)
	return inSpan, func(err error) {
		ended(err)
		if action == CreateInstance && err == nil && t.tracer.On() {
			t.registering.Store(machine.UID, t.clock.Now())
		}
	}
}

// traceOf is the trace of what was ordered of machine last. When that is done, what happens to the Machine starts traces of its own.
func (t *spans) traceOf(machine *v1alpha1.Machine) telemetry.From {
	return telemetry.From{Traceparent: telemetry.Of(machine), Repeated: t.tracer.Settled(machine)}
}

// markSettled notes that a Machine is what was ordered, as the hub knows: its Node has been Ready since it was made or updated.
func (t *spans) markSettled(machine *v1alpha1.Machine) {
	if wasUp(machine.Status) && machine.Status.ObservedGeneration == machine.Generation &&
		meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.MachineUpdatedCondition) {
		t.tracer.Settle(machine)
	}
}

// traceRegistration makes a span of what the hollow node has done since its instance was made. An agent that started meanwhile
// does not know when that was.
func (t *spans) traceRegistration(ctx context.Context, machine *v1alpha1.Machine) {
	if since, found := t.registering.LoadAndDelete(machine.UID); found {
		t.tracer.Record(ctx, "Node.Register", t.traceOf(machine), since.(time.Time), t.clock.Now(), telemetry.Object("machine", machine)...)
	}
}

// traceReady starts the span of the write that tells the hub that a Machine is Ready; other reports have none.
func (t *spans) traceReady(ctx context.Context, before, after *v1alpha1.Machine) (context.Context, func(error)) {
	if isReady(before) || !isReady(after) {
		return ctx, func(error) {}
	}
	return t.tracer.Continue(ctx, "Machine.ReportReady", t.traceOf(before), telemetry.Object("machine", before)...)
}
