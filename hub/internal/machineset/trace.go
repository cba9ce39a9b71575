package machineset

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// traceAct starts the span of a plan; none for an empty one. The first for a generation of the set continues with the trace of
// what changed the set; a Machine that is replaced later is the work of another.
func (c *Controller) traceAct(ctx context.Context, set *v1alpha1.MachineSet, decided plan.Plan) (context.Context, telemetry.End) {
	if decided.Empty() {
		return ctx, func(error) {}
	}
	worked := max(c.Sets.Worked(set.UID), set.Status.ObservedGeneration)
	return c.tracer.Continue(ctx, "MachineSet.Act",
		telemetry.From{Traceparent: telemetry.Of(set), Repeated: worked >= set.Generation},
		append(telemetry.Object("machine_set", set),
			attribute.Int("hollowfleet.create", decided.Create), attribute.Int("hollowfleet.delete", len(decided.Delete)),
			attribute.Int("hollowfleet.replace", len(decided.Replace)))...)
}
