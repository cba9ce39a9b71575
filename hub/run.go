// Package hub runs the controllers that turn MachineDeployments and MachineSets into Machines and let
// workload clusters join. It never connects to a workload cluster: agents come to the hub.
package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/apirollback"
	"github.com/hollowfleet/hollowfleet/hub/internal/autoscaler"
	"github.com/hollowfleet/hollowfleet/hub/internal/cluster"
	"github.com/hollowfleet/hollowfleet/hub/internal/configsource"
	"github.com/hollowfleet/hollowfleet/hub/internal/csrapprover"
	"github.com/hollowfleet/hollowfleet/hub/internal/disruption"
	"github.com/hollowfleet/hollowfleet/hub/internal/fairqueue"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory/clusterprofile"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory/managedcluster"
	"github.com/hollowfleet/hollowfleet/hub/internal/leader"
	"github.com/hollowfleet/hollowfleet/hub/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinelog"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedcluster"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

// leaderLease is the name of the Lease that the leader holds, and of the hub in events.
const leaderLease = v1alpha1.HubLeaseName

// kindsSettle is how long after a change of other projects' kinds the hub starts again: often several are installed together.
const kindsSettle = 2 * time.Second

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;create

// Run runs a hub until ctx is done, and returns nil then. It returns an error if it cannot start, loses its leadership,
// or finds that its API server has gone back to an older state. Tests and main call it alike.
func Run(ctx context.Context, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	if options.Logger.GetSink() == nil {
		options.Logger = logr.Discard()
	}
	// A kind that comes and goes all the time must not keep the hub from its work.
	restarts := rate.NewLimiter(rate.Every(time.Minute), 10)
	for {
		err := runOnce(ctx, options, restarts)
		late := errors.Is(err, context.DeadlineExceeded) // Some work may still be under way: only the end of the process ends that.
		if ctx.Err() != nil && !late {
			return nil
		}
		if late || !errors.Is(err, foreignkinds.ErrChanged) {
			return err
		}
		options.Logger.Info("Starting again", "why", err.Error(), "after", kindsSettle)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(kindsSettle):
		}
	}
}

// runOnce runs a hub for the kinds of other projects that are installed when it starts. The error wraps foreignkinds.ErrChanged when
// others are.
func runOnce(ctx context.Context, options Options, restarts *rate.Limiter) error {
	var err error
	if options.Config, err = options.clientConfig(); err != nil {
		return err
	}
	kinds, err := foreignkinds.Find(ctx, options.Config)
	if err != nil {
		return err
	}
	broken := apirollback.Watched(options.Config)
	served, err := newEndpoints(options)
	if err != nil {
		return err
	}
	defer served.closePorts()
	// kubectl hollow reads there whether a hub works, and its version.
	lease, err := leader.NewLease(options.Config, namespace, leaderLease, map[string]string{v1alpha1.VersionLabel: version.Label()})
	if err != nil {
		return err
	}
	hub, err := newManager(options, served, lease)
	if err != nil {
		return explainMissingKinds(err)
	}
	if err := prepareLease(ctx, hub, options, lease); err != nil {
		return err
	}
	if err := telemetry.RegisterBuildInfo(metrics.Registry, "hub", version.Here()); err != nil {
		return err
	}
	tracker := undecodable.NewTracker("hollowfleet_hub_undecodable_objects", metrics.Registry)
	exporter, err := telemetry.New(ctx, options.Tracing, telemetry.Here("hollowfleet-hub", version.Here()), metrics.Registry, options.Logger.WithName("tracing"))
	if err != nil {
		return err
	}
	defer exporter.Close(ctx, options.Logger)
	if err := addControllers(hub, options, kinds, tracker, exporter.Tracers, lease); err != nil { //nolint:contextcheck // It waits for nothing.
		return explainMissingKinds(err)
	}
	if err := hub.Add(foreignkinds.Watcher{Installed: kinds, Restarts: restarts}); err != nil {
		return fmt.Errorf("adding the watcher of other projects' kinds: %w", err)
	}
	if err := addTracker(hub, tracker); err != nil {
		return err
	}
	if err := addRollbackWatcher(hub, broken); err != nil {
		return err
	}
	served.readyz.Checks["cache"], served.readyz.Checks["undecodable-objects"] = cacheFilled(hub), tracker.Check
	if err := served.addTo(hub); err != nil {
		return err
	}
	options.Logger.Info("Starting hub", "server", options.Config.Host)
	if err := hub.Start(ctx); err != nil {
		return fmt.Errorf("running the hub: %w", err)
	}
	options.Logger.Info("Stopped hub")
	return nil
}

// explainMissingKinds names the remedy where the API server does not serve a kind.
func explainMissingKinds(err error) error {
	if missing := (*meta.NoKindMatchError)(nil); errors.As(err, &missing) && missing.GroupKind.Group == v1alpha1.GroupVersion.Group {
		return fmt.Errorf("the API server does not serve the kind %s: run hub install with the kubeconfig of an administrator, or install the chart of the hub, and start the hub again (%w)",
			missing.GroupKind.Kind, err)
	}
	return err
}

func newManager(options Options, served *endpoints, lease *leader.Lease) (manager.Manager, error) {
	hub, err := ctrl.NewManager(options.Config, manager.Options{
		Scheme:                              scheme.New(),
		Cache:                               cacheOptions(),
		NewClient:                           undecodable.NewClient,
		Logger:                              options.Logger,
		LeaderElection:                      !options.NoLeaderElection,
		LeaderElectionID:                    leaderLease,
		LeaderElectionNamespace:             namespace,
		LeaderElectionResourceLockInterface: lease.Lock,
		// The caller of Run ends right after it, so the lease may be given up at once.
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       served.metricsOptions(options.MetricsAddress),
		HealthProbeBindAddress:        telemetry.NoAddress,
		PprofBindAddress:              options.PprofAddress,
		GracefulShutdownTimeout:       &options.ShutdownTimeout,
		// Names need not be unique in the process: tests run several hubs in one.
		Controller:  config.Controller{SkipNameValidation: new(true), Logger: options.Logger},
		BaseContext: func() context.Context { return logr.NewContext(context.Background(), options.Logger) },
	})
	if err != nil {
		return nil, fmt.Errorf("setting the hub up: %w", err)
	}
	// The election has events of the older kind only, as in controller-runtime.
	lease.Lock.LockConfig.EventRecorder = hub.GetEventRecorderFor(leaderLease) //nolint:staticcheck // It takes no other.
	return hub, nil
}

// ensureNamespace makes the namespace of the leader's lease, unless it is there.
func ensureNamespace(ctx context.Context, options Options) error {
	direct, err := client.New(options.Config, client.Options{Scheme: scheme.New()})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	err = direct.Get(ctx, client.ObjectKeyFromObject(own), own)
	if apierrors.IsNotFound(err) {
		err = direct.Create(ctx, own)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making namespace %s: %w", namespace, err)
	}
	return nil
}

// addTracker follows the objects that cannot be decoded while the hub leads. They fail /readyz and not /healthz: a hub
// that is started again finds them again.
func addTracker(hub manager.Manager, tracker *undecodable.Tracker) error {
	follow := manager.RunnableFunc(func(ctx context.Context) error {
		return tracker.Run(ctx, hub.GetCache(), hub.GetLogger().WithName("undecodable"), hub.GetEventRecorder(leaderLease),
			&v1alpha1.Cluster{}, &v1alpha1.MachineClass{}, &v1alpha1.MachineFleet{}, &v1alpha1.FleetApproval{}, &v1alpha1.MachineDeployment{}, &v1alpha1.MachineSet{}, &v1alpha1.Machine{},
			&v1alpha1.NodeDisruption{}, &v1alpha1.NodeDisruptionRun{}, &v1alpha1.LoadTest{}, &v1alpha1.LoadTestRun{},
			&v1alpha1.SimulatedCluster{}, &v1alpha1.SimulatedClusterSet{}, &v1alpha1.MachineLogRequest{})
	})
	if err := hub.Add(follow); err != nil {
		return fmt.Errorf("adding the tracker of undecodable objects: %w", err)
	}
	return nil
}

func addControllers(hub manager.Manager, options Options, kinds *foreignkinds.Installed, tracker *undecodable.Tracker, tracers trace.TracerProvider, lease *leader.Lease) error {
	recorder, live := hub.GetEventRecorder(leaderLease), undecodable.Reader(hub.GetAPIReader())
	now := clock.RealClock{}
	agents, worked, snapshots := &freeze.Agents{}, machineset.NewSets(now), machineset.NewSnapshots()
	clusters, err := cluster.New(cluster.Deps{
		Client: hub.GetClient(), Live: live, Recorder: recorder, Agents: agents, Clock: now,
		Heartbeat: options.Heartbeat, Version: version.Here(), Undecodable: tracker,
	})
	if err != nil {
		return err
	}
	requests, err := csrapprover.New(csrapprover.Deps{Client: hub.GetClient(), Recorder: recorder, Clock: now})
	if err != nil {
		return err
	}
	safety := plan.OvershootLimits{Up: options.Safety.Up, Down: options.Safety.Down}
	sets, err := machineset.New(machineset.Deps{
		Client: hub.GetClient(), Live: live, Recorder: recorder, Agents: agents, Sets: worked, Snapshots: snapshots, Clock: now,
		Safety: safety, SafetyPeriod: options.Safety.Period, Tracing: tracers,
	})
	if err != nil {
		return err
	}
	deployments, err := machinedeployment.New(machinedeployment.Deps{
		Client: hub.GetClient(), Live: live, Recorder: recorder, Agents: agents, Sets: worked, Snapshots: snapshots, Clock: now,
		Safety: safety, Tracing: tracers,
	})
	if err != nil {
		return err
	}
	placements, err := presence.New(hub, kinds)
	if err != nil {
		return err
	}
	fleets, err := fleet.New(fleet.Deps{
		Client: hub.GetClient(), Live: live, Recorder: recorder, Placements: placements, Agents: agents, Clock: now,
		Tracing: tracers, Leads: leadsUntil(options, lease),
	})
	if err != nil {
		return err
	}
	tests, err := testControllers(hub, live, placements)
	if err != nil {
		return err
	}
	simulated, err := simulatedControllers(hub, live, recorder, agents, leadsUntil(options, lease))
	if err != nil {
		return err
	}
	if err := addMetrics(hub, fleets); err != nil {
		return err
	}
	return errors.Join(
		setUp(hub, options, fairqueue.NewQueue(options.Concurrency), sets.SetupWithManager, deployments.SetupWithManager, configsource.Setup(live, recorder), autoscaler.SetupWithManager),
		// The objects of these are in no namespace: there is one for each cluster, or the hub's administrators made them.
		setUp(hub, options, nil, append(append(tests, simulated...), clusters.SetupWithManager, requests.SetupWithManager, fleets.SetupWithManager, machines.SetupStaleness, machinelog.Setup(now),
			managedcluster.Setup(kinds, recorder, now), clusterprofile.Setup(kinds, recorder, now))...),
	)
}

// setUp adds controllers with queues that newQueue makes, nil for those of controller-runtime.
func setUp(hub manager.Manager, options Options, newQueue fairqueue.New, setups ...func(ctrl.Manager, controller.Options) error) error {
	for _, setup := range setups {
		err := setup(hub, controller.Options{
			MaxConcurrentReconciles: options.Concurrency,
			RateLimiter:             reconciler.Retries(),
			NewQueue:                newQueue,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// leadsUntil tells until when a hub leads that was elected; nil if it was not.
func leadsUntil(options Options, lease *leader.Lease) func(context.Context) (time.Time, error) {
	if options.NoLeaderElection {
		return nil
	}
	return lease.HeldUntil
}

// addMetrics shows Prometheus what is in the cache while the hub leads: one that stands by or was deposed has nothing to say.
func addMetrics(hub manager.Manager, fleets *fleet.Controller) error {
	serve := manager.RunnableFunc(func(ctx context.Context) error {
		defer cluster.ServeMetrics(hub.GetClient())()
		defer freeze.ServeMetrics(hub.GetClient())()
		defer loadtest.ServeMetrics(hub.GetClient())()
		defer fleets.ServeMetrics()()
		<-ctx.Done()
		return nil
	})
	if err := hub.Add(serve); err != nil {
		return fmt.Errorf("adding the metrics: %w", err)
	}
	return nil
}

// testControllers are those that break Nodes and load clusters.
func testControllers(hub manager.Manager, live client.Reader, placements *presence.Kinds) ([]func(ctrl.Manager, controller.Options) error, error) {
	disruptions, err := disruption.New(disruption.Deps{Client: hub.GetClient(), Live: live, Placements: placements, Clock: clock.RealClock{}})
	if err != nil {
		return nil, err
	}
	loads, err := loadtest.New(loadtest.Deps{Client: hub.GetClient(), Live: live, Placements: placements, Clock: clock.RealClock{}})
	if err != nil {
		return nil, err
	}
	return []func(ctrl.Manager, controller.Options) error{disruptions.SetupWithManager, loads.SetupWithManager}, nil
}

// simulatedControllers are those of simulated clusters.
func simulatedControllers(hub manager.Manager, live client.Reader, recorder events.EventRecorder, agents *freeze.Agents,
	leads func(context.Context) (time.Time, error)) ([]func(ctrl.Manager, controller.Options) error, error) {
	clusters, err := simulatedcluster.New(simulatedcluster.Deps{Client: hub.GetClient(), Live: live, Recorder: recorder, Agents: agents, Clock: clock.RealClock{}})
	if err != nil {
		return nil, err
	}
	sets, err := simulatedclusterset.New(simulatedclusterset.Deps{
		Client: hub.GetClient(), Live: live, Recorder: recorder, Agents: agents, Clock: clock.RealClock{}, Leads: leads,
	})
	if err != nil {
		return nil, err
	}
	return []func(ctrl.Manager, controller.Options) error{clusters.SetupWithManager, sets.SetupWithManager}, nil
}

// addRollbackWatcher ends the hub when its API server goes back to an older state.
func addRollbackWatcher(hub manager.Manager, broken <-chan struct{}) error {
	watcher, err := apirollback.New(apirollback.Deps{
		Live: hub.GetAPIReader(), Informers: hub.GetCache(), Broken: broken, Clock: clock.RealClock{},
		Log: hub.GetLogger().WithName("apirollback"),
	})
	if err != nil {
		return err
	}
	if err := hub.Add(watcher); err != nil {
		return fmt.Errorf("adding the watcher for an API server that goes back: %w", err)
	}
	return nil
}

// fillProbe is how long a probe waits for a cache that is being filled.
const fillProbe = 50 * time.Millisecond

// cacheFilled says whether what the controllers read is in the cache. A hub that waits to be elected reads nothing yet, and
// is ready.
func cacheFilled(hub manager.Manager) healthz.Checker {
	return func(request *http.Request) error {
		bounded, cancel := context.WithTimeout(request.Context(), fillProbe)
		defer cancel()
		if !hub.GetCache().WaitForCacheSync(bounded) {
			return errors.New("the cache is not filled yet")
		}
		return nil
	}
}
