package agent

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/errgroup"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// startExporter makes what sends traces and metrics.
func (e *environment) startExporter(ctx context.Context) error {
	service := telemetry.Here("hollowfleet-agent", e.Version)
	service.Cluster = e.ClusterName
	var err error
	e.exporter, err = telemetry.New(ctx, e.Tracing, service, prometheus.Gatherers{e.registry, crmetrics.Registry}, e.Log.WithName("tracing"))
	return err
}

// traceFreezes makes a span of each freeze when it is over: what of a trace took long may have waited for that.
func (b *bootstrap) traceFreezes(ctx context.Context, group *errgroup.Group) {
	tracer := telemetry.NewTracer(b.exporter.Tracers)
	if tracer == nil {
		return
	}
	changes := b.monitor.Subscribe()
	group.Go(func() error {
		var first freeze.State
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-changes:
			}
			switch state := b.monitor.State(); {
			case state.Frozen && !first.Frozen:
				first = state
			case !state.Frozen && first.Frozen:
				tracer.Record(ctx, "Cluster.Frozen", telemetry.From{}, first.Since, b.clock.Now(),
					attribute.String("hollowfleet.cluster", b.ClusterName), attribute.String("hollowfleet.reason", first.Reason))
				first = freeze.State{}
			}
		}
	})
}
