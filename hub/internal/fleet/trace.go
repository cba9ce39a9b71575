package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// traceAct carries a decision out in a span, unless it is empty. That for a change of the fleet, which seen says was not observed before,
// starts the trace, or continues with the one that the user has named on the fleet; each later wave starts its own, with a link
// to what was last written to a cluster.
func (c *Controller) traceAct(ctx context.Context, s *scope, d decision, seen bool) (rest bool, err error) {
	if d.isEmpty() {
		return c.act(ctx, s, d)
	}
	from := telemetry.From{Traceparent: telemetry.Of(s.fleet), Repeated: seen || c.tracer.Settled(s.fleet)}
	for _, m := range s.members {
		if from.Repeated && from.Traceparent == "" && m.deployment != nil {
			from.Traceparent = telemetry.Of(m.deployment)
		}
	}
	ctx, end := c.tracer.Continue(ctx, "MachineFleet.Act", from, append(telemetry.Object("machine_fleet", s.fleet),
		attribute.String("hollowfleet.revision", s.revision), attribute.Int("hollowfleet.changes", len(d.changes)),
		attribute.Int("hollowfleet.corrections", len(d.corrections)), attribute.Int("hollowfleet.removals", len(d.removals)))...)
	rest, err = c.act(ctx, s, d)
	end(err)
	if err == nil {
		c.tracer.Settle(s.fleet)
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
