package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/agent/internal/connect"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/report"
	"github.com/hollowfleet/hollowfleet/agent/internal/serve"
)

// joinInterval is how often an agent that waits for its cluster to be accepted looks again.
const joinInterval = time.Second

// agent is what the parts of one Run share.
type agent struct {
	Options
	clock    clock.WithTicker
	registry *prometheus.Registry

	hub, target, host *rest.Config
	hubProbe          *connect.HubProbe
	targetProbe       *connect.TargetProbe
	hubDirect         *connect.Direct
	monitor           *freeze.Monitor
	gate              *freeze.Gate

	// doing is what /readyz says.
	doing atomic.Value
	// capacity reads the cache of Nodes once there is one.
	capacity atomic.Pointer[func(context.Context) corev1.ResourceList]
}

// Run runs an agent until ctx ends; it then returns nil. It returns *UsageError when the options cannot be used.
//
// It starts to probe and to serve at once, waits for the hub to accept the cluster, and then works.
func Run(ctx context.Context, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return &UsageError{Err: err}
	}
	a := &agent{Options: options, clock: clock.RealClock{}, registry: prometheus.NewRegistry()}
	if err := a.connect(); err != nil {
		return err
	}
	listen, err := serve.Listen(a.Log, a.servers()...)
	if err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, a.Log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return listen(ctx) })
	group.Go(func() error { return a.monitor.Start(ctx) })
	group.Go(func() error { return a.report(ctx) })
	group.Go(func() error {
		if err := a.waitUntilJoined(ctx); err != nil {
			return err
		}
		return a.work(ctx)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	a.Log.Info("Stopped")
	return nil
}

// connect loads the kubeconfigs and makes probes, monitor and gate.
func (a *agent) connect() error {
	a.doing.Store("starting")
	a.registry.MustRegister(collectors.NewBuildInfoCollector())
	userAgent := fmt.Sprintf("hollowfleet-agent/%s (%s)", a.Version, a.ClusterName)
	var err error
	for _, kubeconfig := range []struct {
		flag, path string
		into       **rest.Config
	}{
		{"--hub-kubeconfig", a.HubKubeconfig, &a.hub},
		{"--target-kubeconfig", a.TargetKubeconfig, &a.target},
		{"--host-kubeconfig", a.HostKubeconfig, &a.host},
	} {
		if *kubeconfig.into, err = connect.LoadConfig(kubeconfig.path, userAgent); err != nil {
			return &UsageError{Err: fmt.Errorf("%s: %w", kubeconfig.flag, err)}
		}
	}
	if a.hubDirect, err = connect.NewDirect(a.hub); err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	targetDirect, err := connect.NewDirect(a.target)
	if err != nil {
		return fmt.Errorf("connecting to the target: %w", err)
	}
	a.hubProbe = connect.NewHubProbe(a.hubDirect, a.ClusterName)
	if a.targetProbe, err = connect.NewTargetProbe(targetDirect, a.target, a.clock); err != nil {
		return err
	}
	probes := map[freeze.Scope]freeze.Probe{freeze.Hub: a.hubProbe.Probe, freeze.Target: a.targetProbe.Probe}
	if a.HostKubeconfig != a.TargetKubeconfig {
		hostDirect, err := connect.NewDirect(a.host)
		if err != nil {
			return fmt.Errorf("connecting to the host: %w", err)
		}
		probes[freeze.Host] = connect.HostProbe(hostDirect, a.HostNamespace)
	}
	metrics := freeze.NewMetrics(a.registry)
	a.monitor, err = freeze.NewMonitor(freeze.Options{
		Probes:   probes,
		Ordered:  a.hubProbe.Ordered,
		Policy:   freeze.Policy{After: a.FreezeAfter, Successes: DefaultThawSuccesses},
		Interval: a.probeInterval(), FastInterval: min(fastProbe, a.probeInterval()), Timeout: a.probeTimeout(),
		Clock: a.clock, Log: a.Log.WithName("freeze"), Metrics: metrics,
	})
	if err != nil {
		return err
	}
	a.gate = freeze.NewGate(a.monitor, metrics)
	return nil
}

func (a *agent) servers() []serve.Server {
	describe := func() string {
		state := a.monitor.State()
		return fmt.Sprintf("%s; freeze: %s", a.doing.Load(), state.Reason)
	}
	return []serve.Server{
		{Name: "health", Address: a.HealthAddress, Handler: serve.Health(a.monitor, describe)},
		{Name: "metrics", Address: a.MetricsAddress, Handler: serve.Metrics(a.registry, crmetrics.Registry)},
		{Name: "profiling", Address: a.PprofAddress, Handler: serve.Profiling()},
	}
}

// report runs the reporter, which needs neither target nor caches.
func (a *agent) report(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the host's name: %w", err)
	}
	reporter, err := report.New(report.Deps{
		Client: a.hubDirect.Client, Cluster: a.hubProbe.Cluster, Seen: a.hubProbe.Seen, Target: a.targetProbe.Identity,
		Capacity: func(ctx context.Context) corev1.ResourceList {
			if read := a.capacity.Load(); read != nil {
				return (*read)(ctx)
			}
			return nil
		},
		Freeze: a.monitor.State, Changes: a.monitor.Subscribe(),
		Holder: host + "_" + uuid.NewString(), AgentVersion: a.Version, Clock: a.clock, Log: a.Log.WithName("report"),
	})
	if err != nil {
		return err
	}
	return reporter.Start(ctx)
}

// waitUntilJoined returns when the hub has accepted the cluster and made its namespace. It says in the log what
// it waits for, once for each thing.
func (a *agent) waitUntilJoined(ctx context.Context) error {
	ticker := a.clock.NewTicker(joinInterval)
	defer ticker.Stop()
	for {
		missing := a.missing()
		if missing == "" {
			return nil
		}
		if a.doing.Swap(missing) != missing {
			a.Log.Info("Waiting to join", "Cluster", a.ClusterName, "for", missing)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// missing says what the agent has to wait for, empty if nothing.
func (a *agent) missing() string {
	cluster := a.hubProbe.Cluster()
	switch {
	case report.Joined(cluster):
		return ""
	case cluster != nil:
		return fmt.Sprintf("the hub to accept Cluster %q and make its namespace (spec.acceptance is %s)", a.ClusterName, cluster.Spec.Acceptance)
	}
	for _, endpoint := range a.monitor.State().Endpoints {
		if endpoint.Scope == freeze.Hub && endpoint.LastMessage != "" {
			return fmt.Sprintf("the hub to show this agent Cluster %q: %s: %s", a.ClusterName, endpoint.LastOutcome, endpoint.LastMessage)
		}
	}
	return "the hub's first answer"
}
