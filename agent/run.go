package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/hubidentity"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/internal/serving"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// joinInterval is how often an agent that waits for its cluster to be accepted looks again.
const joinInterval = time.Second

// environment is what everything in one Run shares.
type environment struct {
	Options
	clock    clock.WithTicker
	registry *prometheus.Registry
	exporter *telemetry.Exporter
	// credentialMetrics are there for an agent too whose credential others write: then they stay 0.
	credentialMetrics *clientcert.Metrics
	// doing is what /readyz says.
	doing atomic.Value
}

// pollRuntime is what a part of that name works with.
func (e *environment) pollRuntime(name string) poll.Runtime {
	return poll.Runtime{Clock: e.clock, Log: e.Log.WithName(name)}
}

func newEnvironment(ctx context.Context, options Options) (*environment, error) {
	e := &environment{Options: options, clock: clock.RealClock{}, registry: prometheus.NewRegistry()}
	e.credentialMetrics = clientcert.NewMetrics(e.registry)
	e.doing.Store("starting")
	e.registry.MustRegister(collectors.NewBuildInfoCollector())
	if err := telemetry.RegisterBuildInfo(e.registry, "agent", e.Version); err != nil {
		return nil, err
	}
	return e, e.startExporter(ctx)
}

// Run runs an agent until ctx ends; it then returns nil. It returns *UsageError when the options cannot be used.
//
// It starts to probe and to serve at once, gets its credential, waits for the hub to accept the cluster and for the
// cluster's Lease, and then works. It returns clusterstatus.ErrLeaseLost when another agent has taken the Lease.
func Run(ctx context.Context, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return &UsageError{Err: err}
	}
	e, err := newEnvironment(ctx, options)
	if err != nil {
		return err
	}
	defer e.exporter.Close(ctx, e.Log)
	b, err := newBootstrap(ctx, e)
	if err != nil {
		return err
	}
	w, err := newWorker(b)
	if err != nil {
		return err
	}
	certificate, err := serving.NewCertificate(e.Serving, e.clock, func(err error) { e.Log.Error(err, "Keeping the previous serving certificate") })
	if err != nil {
		return &UsageError{Err: err}
	}
	servers, err := openPorts(e.Log, certificate, e.servers(b, w)...)
	if err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, e.Log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return certificate.Start(ctx) })
	for _, server := range servers {
		group.Go(func() error { return server.Start(ctx) })
	}
	b.traceFreezes(ctx, group)
	group.Go(func() error { return b.monitor.Start(ctx) })
	group.Go(func() error {
		if err := b.checkIdentity(ctx); err != nil {
			return err
		}
		return b.representCluster(ctx)
	})
	group.Go(func() error { return b.hubIdentity.Start(ctx) })
	group.Go(func() error { return workOn(ctx, b, w) })
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	b.giveUpLease(ctx, err)
	if err != nil {
		return err
	}
	e.Log.Info("Stopped", "was", b.describe())
	return nil
}

// workOn works until ctx ends. When an API server has gone back to an older state it starts over, with empty caches,
// and so it does when the hub has shut it out, once it is let in again.
func workOn(ctx context.Context, b *bootstrap, w *worker) error {
	for {
		if err := b.waitUntilJoined(ctx); err != nil {
			return err
		}
		err := w.work(ctx)
		if !beginsAnew(err) || ctx.Err() != nil {
			return err
		}
		b.Log.Info("Dropping the caches and recreating them", "why", err.Error())
	}
}

// beginsAnew reports whether the work has ended for the sake of its caches and connections.
func beginsAnew(err error) bool {
	return errors.Is(err, relist.ErrWentBack) || errors.Is(err, hubidentity.ErrBroken) || errors.Is(err, hubidentity.ErrShutOut)
}

func (e *environment) userAgent() string {
	return fmt.Sprintf("hollowfleet-agent/%s (%s)", e.Version, e.ClusterName)
}

// describe says what the agent does, or waits for.
func (b *bootstrap) describe() string {
	state := b.monitor.State()
	said := fmt.Sprintf("%s; freeze: %s", b.doing.Load(), state.Reason)
	if waiting := b.credential.waiting(); waiting != "" && waiting != b.doing.Load() {
		said += "; credential: waiting for " + waiting
	}
	return said
}

func (e *environment) servers(b *bootstrap, w *worker) []server {
	return []server{
		{"health", e.HealthAddress, healthHandler(b.monitor, b.describe, w.parts.undecodable.Check), true},
		{"metrics", e.MetricsAddress, metricsHandler(e.registry, crmetrics.Registry), true},
		{"profiling", e.PprofAddress, profilingHandler(), false},
	}
}
