package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// traceAct carries a decision out in a span, unless it is empty. That for a change of the fleet, which seen says was not observed before,
// starts the trace, or continues with the one that the user has named on the fleet; each later wave starts its own, with a link
// to what was last written to a cluster.
func (c *Controller) traceAct(ctx context.Context, s *rollout.Scope, d rollout.Decision, seen bool) (rest bool, err error) {
	if d.IsEmpty() {
		return c.act(ctx, s, d)
	}
	from := telemetry.From{Traceparent: telemetry.Of(s.Fleet), Repeated: seen || c.tracer.Settled(s.Fleet)}
	for _, m := range s.Members {
		if from.Repeated && from.Traceparent == "" && m.Deployment != nil {
			from.Traceparent = telemetry.Of(m.Deployment)
		}
	}
	ctx, end := c.tracer.Continue(ctx, "MachineFleet.Act", from, append(telemetry.Object("machine_fleet", s.Fleet),
		attribute.String("hollowfleet.revision", s.Revision), attribute.Int("hollowfleet.changes", len(d.Changes)),
		attribute.Int("hollowfleet.corrections", len(d.Corrections)), attribute.Int("hollowfleet.removals", len(d.Removals)))...)
	rest, err = c.act(ctx, s, d)
	end(err)
	if err == nil {
		c.tracer.Settle(s.Fleet)
	}
	return rest, err
}

// stampPatch adds traceparent, if there is one, to a merge patch that changes something.
func stampPatch(patch []byte, traceparent string) ([]byte, error) {
	if traceparent == "" {
		return patch, nil
	}
	var content map[string]any
	if err := json.Unmarshal(patch, &content); err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	metadata, _ := content["metadata"].(map[string]any) // It has the version that was read.
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[v1alpha1.TraceparentAnnotation] = traceparent
	return json.Marshal(content)
}
