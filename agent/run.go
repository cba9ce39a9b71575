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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/agent/internal/checks"
	"github.com/hollowfleet/hollowfleet/agent/internal/clientcert"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/clusterstatus"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/hubidentity"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// joinInterval is how often an agent that waits for its cluster to be accepted looks again.
const joinInterval = time.Second

// agent is what the parts of one Run share.
type agent struct {
	Options
	clock    clock.WithTicker
	started  time.Time
	registry *prometheus.Registry
	exporter *telemetry.Exporter
	// credentialMetrics are there for an agent too whose credential others write: then they stay 0.
	credentialMetrics *clientcert.Metrics

	way               way
	hub, target, host *rest.Config
	hubProbe          *clients.HubProbe
	targetProbe       *clients.TargetProbe
	hubDirect         *clients.Direct
	monitor           *freeze.Monitor
	gate              *freeze.Gate
	pace              *freeze.ThawLimiter
	parts             parts

	// dir is the credential directory, if there is one; rival is why it is not ours yet, and release ends our
	// claim to it.
	dir     *clientcert.Dir
	rival   atomic.Pointer[freeze.Blocker]
	release func()
	// hubIdentity knows whether the hub is the one that this agent works for.
	hubIdentity *hubidentity.Verifier
	// denial knows whether the hub has shut this agent out.
	denial *hubidentity.Denial
	// skewed is why this agent does not work for a hub of that version, nil if it does.
	skewed atomic.Pointer[freeze.Blocker]
	// reporter is there once the agent has an identity.
	reporter atomic.Pointer[clusterstatus.Reporter]

	// doing is what /readyz says.
	doing atomic.Value
	// capacity reads the cache of Nodes once there is one.
	capacity atomic.Pointer[func(context.Context) corev1.ResourceList]
	// orphans knows what has no Machine, once there are controllers.
	orphans atomic.Pointer[machine.OrphanFinder]
	// checker reads what the hub asks of the cluster, once there are controllers.
	checker atomic.Pointer[checks.Checker]
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
	a := &agent{Options: options, clock: clock.RealClock{}, registry: prometheus.NewRegistry()}
	a.started, a.credentialMetrics = a.clock.Now(), clientcert.NewMetrics(a.registry)
	if err := a.export(ctx); err != nil {
		return err
	}
	defer a.exporter.Close(ctx, a.Log)
	if err := a.connect(ctx); err != nil {
		return err
	}
	certificate, err := telemetry.NewCertificate(a.Serving, a.clock)
	if err != nil {
		return &UsageError{Err: err}
	}
	servers, err := listen(a.Log, certificate, a.servers()...)
	if err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, a.Log)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return certificate.Start(ctx) })
	for _, server := range servers {
		group.Go(func() error { return server.Start(ctx) })
	}
	a.traceFreezes(ctx, group)
	group.Go(func() error { return a.monitor.Start(ctx) })
	group.Go(func() error {
		if err := a.checkIdentity(ctx); err != nil {
			return err
		}
		return a.represent(ctx)
	})
	group.Go(func() error { return a.hubIdentity.Start(ctx) })
	group.Go(func() error { return a.workOn(ctx) })
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	a.leave(ctx, err)
	if err != nil {
		return err
	}
	a.Log.Info("Stopped", "was", a.describe())
	return nil
}

// workOn works until ctx ends. When an API server has gone back to an older state it begins anew, with empty caches,
// and so it does when the hub has shut it out, once it is let in again.
func (a *agent) workOn(ctx context.Context) error {
	for {
		if err := a.waitUntilJoined(ctx); err != nil {
			return err
		}
		err := a.work(ctx)
		if !beginsAnew(err) || ctx.Err() != nil {
			return err
		}
		a.Log.Info("Dropping the caches and making them anew", "why", err.Error())
	}
}

// beginsAnew tells whether the work has ended for the sake of its caches and connections.
func beginsAnew(err error) bool {
	return errors.Is(err, relist.ErrWentBack) || errors.Is(err, hubidentity.ErrBroken) || errors.Is(err, hubidentity.ErrShutOut)
}

// connect loads the kubeconfigs and makes probes, monitor and gate.
func (a *agent) connect(ctx context.Context) error {
	a.doing.Store("starting")
	a.registry.MustRegister(collectors.NewBuildInfoCollector())
	if err := telemetry.RegisterBuildInfo(a.registry, "agent", a.Version); err != nil {
		return err
	}
	userAgent := a.userAgent()
	if err := a.loadKubeconfigs(userAgent); err != nil {
		return err
	}
	targetDirect, err := clients.NewDirect(a.target)
	if err != nil {
		return fmt.Errorf("connecting to the target: %w", err)
	}
	if err := a.connectHub(ctx, targetDirect, userAgent); err != nil {
		return err
	}
	a.hubProbe, a.denial = clients.NewHubProbe(a.hubDirect, a.ClusterName), hubidentity.NewDenial(a.clock)
	if a.targetProbe, err = clients.NewTargetProbe(targetDirect, a.target, a.clock); err != nil {
		return err
	}
	probes := map[freeze.Scope]freeze.Probe{freeze.Hub: a.probeHub, freeze.Target: a.targetProbe.Probe}
	hostDirect := targetDirect
	if a.HostKubeconfig != a.TargetKubeconfig {
		if hostDirect, err = clients.NewDirect(a.host); err != nil {
			return fmt.Errorf("connecting to the host: %w", err)
		}
		probes[freeze.Host] = clients.HostProbe(hostDirect, a.HostNamespace)
	}
	if a.hubIdentity, err = a.newHubIdentity(hostDirect); err != nil {
		return err
	}
	metrics := freeze.NewMetrics(a.registry)
	a.monitor, err = freeze.NewMonitor(freeze.Options{
		Probes:   probes,
		Ordered:  a.hubProbe.Ordered,
		Blockers: []freeze.BlockerFunc{a.denial.Blocked, a.versionSkew, a.hubIdentity.Blocked, a.leaseBlocker},
		Relist:   true,
		Policy:   freeze.Policy{After: a.FreezeAfter, Successes: DefaultThawSuccesses},
		Interval: a.probeInterval(), FastInterval: min(fastProbe, a.probeInterval()), Timeout: a.probeTimeout(),
		Clock: a.clock, Log: a.Log.WithName("freeze"), Metrics: metrics,
	})
	if err != nil {
		return err
	}
	a.gate = freeze.NewGate(a.monitor, metrics)
	a.pace, err = freeze.NewThawLimiter(freeze.ThawLimiterOptions{
		PerMinute: a.ThawDeletionsPerMinute, Period: a.ThawPeriod,
		Thaw: a.monitor.Thaw, Downtime: a.monitor, Clock: a.clock, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	a.parts = newParts(a.registry, a.monitor)
	return nil
}

func (a *agent) userAgent() string {
	return fmt.Sprintf("hollowfleet-agent/%s (%s)", a.Version, a.ClusterName)
}

// loadKubeconfigs reads what others have written, and reports everything that is wrong with it.
func (a *agent) loadKubeconfigs(userAgent string) error {
	var problems []error
	if a.HubKubeconfig != "" {
		var err error
		if a.way, err = a.ready(); err != nil {
			problems = append(problems, err)
		}
	}
	for _, kubeconfig := range []struct {
		flag, path string
		into       **rest.Config
	}{
		{"--target-kubeconfig", a.TargetKubeconfig, &a.target},
		{"--host-kubeconfig", a.HostKubeconfig, &a.host},
	} {
		var err error
		if *kubeconfig.into, err = clients.LoadConfig(kubeconfig.path, userAgent); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", kubeconfig.flag, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return &UsageError{Err: err}
	}
	return nil
}

// connectHub makes clients that follow the credential for the hub. Probes and reports have connections of their own.
func (a *agent) connectHub(ctx context.Context, target *clients.Direct, userAgent string) error {
	var err error
	if err := a.openCredential(ctx, target, userAgent); err != nil {
		return err
	}
	if a.hub, err = clients.Rotating(a.way, a.way.server, userAgent); err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	own, err := clients.Rotating(a.way, a.way.server, userAgent)
	if err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	if a.hubDirect, err = clients.NewDirect(own); err != nil {
		return fmt.Errorf("connecting to the hub: %w", err)
	}
	return nil
}

// describe says what the agent does, or waits for.
func (a *agent) describe() string {
	state := a.monitor.State()
	said := fmt.Sprintf("%s; freeze: %s", a.doing.Load(), state.Reason)
	if waiting := a.way.waiting(); waiting != "" && waiting != a.doing.Load() {
		said += "; credential: waiting for " + waiting
	}
	return said
}

func (a *agent) servers() []server {
	return []server{
		{"health", a.HealthAddress, healthHandler(a.monitor, a.describe, a.parts.undecodable.Check), true},
		{"metrics", a.MetricsAddress, metricsHandler(a.registry, crmetrics.Registry), true},
		{"profiling", a.PprofAddress, profilingHandler(), false},
	}
}

func (a *agent) readCapacity(ctx context.Context) corev1.ResourceList {
	if read := a.capacity.Load(); read != nil {
		return (*read)(ctx)
	}
	return nil
}

func (a *agent) readOrphans() (*v1alpha1.Orphans, bool) {
	if finder := a.orphans.Load(); finder != nil {
		return finder.Orphans()
	}
	return nil, false
}

func (a *agent) readChecks() checks.Result {
	if checker := a.checker.Load(); checker != nil {
		return checker.Result()
	}
	return checks.Result{}
}

// waitUntilJoined returns when the agent has its credential, the hub has accepted the cluster and made its
// namespace, and the agent has the cluster's Lease. It says in the log what it waits for, once for each thing.
//
// An agent that stands by for another one waits here too: its controllers would report on the same Machines.
func (a *agent) waitUntilJoined(ctx context.Context) error {
	return poll.Until(ctx, a.clock, joinInterval, func(context.Context) (joined bool, err error) {
		missing := a.missing()
		if missing != "" && a.doing.Swap(missing) != missing {
			a.Log.Info("Waiting to join", "Cluster", a.ClusterName, "for", missing)
		}
		return missing == "", nil
	})
}

// missing says what the agent has to wait for, empty if nothing.
func (a *agent) missing() string {
	cluster := a.hubProbe.Cluster()
	why, blocked := a.leaseBlocker()
	denied, out := a.denial.Blocked()
	skew, skewed := a.versionSkew()
	switch {
	case out:
		return denied.Message
	case skewed:
		return skew.Message
	case blocked && why.Reason == v1alpha1.ReasonAnotherAgent:
		return why.Message
	case a.way.waiting() != "":
		return a.way.waiting()
	case clusterstatus.Joined(cluster) && blocked:
		return why.Message
	case clusterstatus.Joined(cluster):
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
