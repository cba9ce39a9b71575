package machinedeployment

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// traceAct starts the span of a decision; none for an empty one. The first for a generation of the deployment belongs to the
// trace of the change, or starts one; each later step of a rollout starts its own, with a link to the step before.
func (c *Controller) traceAct(ctx context.Context, s *scope, d decision) (context.Context, telemetry.End) {
	if d.isEmpty() {
		return ctx, func(error) {}
	}
	deployment := s.deployment
	from := telemetry.From{
		Traceparent: telemetry.Of(deployment),
		Repeated:    deployment.Status.ObservedGeneration == deployment.Generation || c.tracer.Settled(deployment),
	}
	if from.Repeated && from.Traceparent == "" && s.current != nil {
		from.Traceparent = telemetry.Of(s.current)
	}
	return c.tracer.Continue(ctx, "MachineDeployment.Act", from, append(telemetry.Object("machine_deployment", deployment),
		attribute.Int64("hollowfleet.revision", d.revision), attribute.String("hollowfleet.why", d.Why),
		attribute.Int("hollowfleet.move", len(d.Move)), attribute.Int("hollowfleet.replace", len(d.Replace)))...)
}
