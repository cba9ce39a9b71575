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

// export makes what sends traces and metrics.
func (a *agent) export(ctx context.Context) error {
	service := telemetry.Here("hollowfleet-agent", a.Version)
	service.Cluster = a.ClusterName
	var err error
	a.exporter, err = telemetry.New(ctx, a.Tracing, service, prometheus.Gatherers{a.registry, crmetrics.Registry}, a.Log.WithName("tracing"))
	return err
}

// traceFreezes makes a span of each freeze when it is over: what of a trace took long may have waited for that.
func (a *agent) traceFreezes(ctx context.Context, group *errgroup.Group) {
	tracer := telemetry.NewTracer(a.exporter.Tracers)
	if tracer == nil {
		return
	}
	changes := a.monitor.Subscribe()
	group.Go(func() error {
		var first freeze.State
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-changes:
			}
			switch state := a.monitor.State(); {
			case state.Frozen && !first.Frozen:
				first = state
			case !state.Frozen && first.Frozen:
				tracer.Record(ctx, "Cluster.Frozen", telemetry.From{}, first.Since, a.clock.Now(),
					attribute.String("hollowfleet.cluster", a.ClusterName), attribute.String("hollowfleet.reason", first.Reason))
				first = freeze.State{}
			}
		}
	})
}
