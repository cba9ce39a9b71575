package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/driver/hollow"
	"github.com/hollowfleet/hollowfleet/agent/internal/checks"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/agent/internal/clusterstatus"
	"github.com/hollowfleet/hollowfleet/agent/internal/csrapprover"
	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/hubidentity"
	"github.com/hollowfleet/hollowfleet/agent/internal/machine"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

const (
	// syncTimeout is how long caches may take: an API server that is away is waited for, not given up.
	syncTimeout = 100 * 365 * 24 * time.Hour
	// reconcileTimeout bounds one reconcile, so that a request that hangs does not hold a worker forever.
	reconcileTimeout = 30 * time.Second
	stopTimeout      = 10 * time.Second
	workers          = 10
)

// parts are what outlives the controllers, should they be recreated.
type parts struct {
	machineMetrics  *machine.Metrics
	approverMetrics *csrapprover.Metrics
	relistMetrics   *relist.Metrics
	undecodable     *undecodable.Tracker
	// Each receives after a change of the freeze state.
	machineThaws, approverThaws, relistDue <-chan struct{}
}

func newParts(registry prometheus.Registerer, monitor *freeze.Monitor) parts {
	return parts{
		machineMetrics: machine.NewMetrics(registry), approverMetrics: csrapprover.NewMetrics(registry), relistMetrics: relist.NewMetrics(registry),
		undecodable:  undecodable.NewTracker("hollowfleet_agent_undecodable_objects", registry),
		machineThaws: monitor.Subscribe(), approverThaws: monitor.Subscribe(), relistDue: monitor.Subscribe(),
	}
}

// worker makes the Machines of the cluster real, once the bootstrap lets it.
type worker struct {
	*environment
	kubeconfigs
	credential  hubCredential
	hubProbe    *clients.HubProbe
	targetProbe *clients.TargetProbe
	denial      *hubidentity.Denial
	hubIdentity *hubidentity.Verifier
	monitor     *freeze.Monitor
	facts       *facts
	gate        *freeze.Gate
	thawLimiter *freeze.ThawLimiter
	parts       parts
}

// newWorker returns the worker that acts for what a bootstrap represents.
func newWorker(b *bootstrap) (*worker, error) {
	w := &worker{
		environment: b.environment, kubeconfigs: b.kubeconfigs, credential: b.credential, hubProbe: b.hubProbe, targetProbe: b.targetProbe, denial: b.denial,
		hubIdentity: b.hubIdentity, monitor: b.monitor, facts: b.facts, gate: freeze.NewGate(b.monitor, b.freezeMetrics), parts: newParts(b.registry, b.monitor),
	}
	var err error
	w.thawLimiter, err = freeze.NewThawLimiter(freeze.ThawLimiterOptions{
		PerMinute: w.ThawDeletionsPerMinute, Period: w.ThawPeriod,
		Thaws: w.monitor, Clock: w.clock, Metrics: b.freezeMetrics,
	})
	return w, err
}

// clusters are the caches and gated clients of the agent.
type clusters struct {
	hub          manager.Manager
	target, host cluster.Cluster
	// informers are those of all of them.
	informers *relist.Caches
}

// work runs the controllers until ctx ends.
func (w *worker) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer utilnet.CloseIdleConnectionsFor(w.hub.Transport)
	w.doing.Store("working")
	w.Log.Info("Working", "Cluster", w.ClusterName, "hub", w.hub.Host, "target", w.target.Host, "host", w.host.Host)
	c, err := w.clusters(ctx)
	if err != nil {
		return err
	}
	if err := csrapprover.Index(ctx, c.target.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing certificate requests: %w", err)
	}
	defer w.hubIdentity.SetInstanceCounter(nil)
	if err := w.addControllers(ctx, c); err != nil {
		return err
	}
	if err := c.hub.Start(ctx); err != nil {
		return fmt.Errorf("running the controllers: %w", err)
	}
	return nil
}

// clusters makes the caches. The hub's is the manager's; those of target and host are two also when they are the
// same cluster: they share connections and nothing that they hold is in both.
func (w *worker) clusters(ctx context.Context) (clusters, error) {
	c := clusters{informers: &relist.Caches{}}
	newCache := clients.NewCacheUntil(ctx)
	scheme, err := clients.Scheme()
	if err != nil {
		return c, err
	}
	c.hub, err = manager.New(clients.Gated(w.hub, w.gate.HubRoundTripper), manager.Options{
		Scheme: scheme, MapperProvider: newMapper, Logger: w.Log,
		NewCache: newCache, NewClient: undecodable.NewClient,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{w.hubNamespace(): {}},
			DefaultTransform:  cache.TransformStripManagedFields(),
			NewInformer:       c.informers.NewInformer("hub"),
		},
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: ptr.To(stopTimeout),
		Controller: config.Controller{
			// Several agents may run in one process, in tests.
			SkipNameValidation: ptr.To(true),
			CacheSyncTimeout:   syncTimeout,
		},
	})
	if err != nil {
		return c, fmt.Errorf("making the hub's cache: %w", err)
	}
	target, host := w.targetCache(), w.hostCache()
	target.NewInformer, host.NewInformer = c.informers.NewInformer("target"), c.informers.NewInformer("host")
	if c.target, err = w.addCluster(c.hub, scheme, w.target, newCache, target); err != nil {
		return c, fmt.Errorf("making the target's cache: %w", err)
	}
	if c.host, err = w.addCluster(c.hub, scheme, w.host, newCache, host); err != nil {
		return c, fmt.Errorf("making the host's cache: %w", err)
	}
	return c, nil
}

func (w *worker) addCluster(to manager.Manager, scheme *runtime.Scheme, config *rest.Config, newCache cache.NewCacheFunc, options cache.Options) (cluster.Cluster, error) {
	made, err := cluster.New(clients.Gated(config, w.gate.RoundTripper), func(o *cluster.Options) {
		o.Scheme, o.MapperProvider, o.Logger, o.NewCache, o.Cache = scheme, newMapper, w.Log, newCache, options
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}
	})
	if err != nil {
		return nil, err
	}
	return made, to.Add(made)
}

func newMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) { return clients.Mapper(), nil }

// targetCache holds hollow Nodes, those of kwok too, and the certificate requests of kubelets. With providers that are not built in
// it holds every Node: theirs carry no label to select them by.
func (w *worker) targetCache() cache.Options {
	nodes := cache.ByObject{Transform: node.Shrink}
	if len(w.Drivers) == 0 {
		nodes.Label = hollowNodes()
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: nodes,
			&certificatesv1.CertificateSigningRequest{}: {
				// Kubelets ask two signers, and a selector cannot name two. This leaves out the one that most others ask.
				Field: fields.OneTermNotEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientSignerName),
			},
		},
	}
}

// hollowNodes selects the Nodes of the built-in providers.
func hollowNodes() labels.Selector {
	known, err := labels.NewRequirement(v1alpha1.HollowNodeLabel, selection.In, []string{"true", v1alpha1.KwokNodeLabelValue})
	if err != nil {
		return labels.Everything() // Never: the label is a constant.
	}
	return labels.NewSelector().Add(*known)
}

// hostCache holds this cluster's pods.
func (w *worker) hostCache() cache.Options {
	return cache.Options{
		DefaultTransform:     cache.TransformStripManagedFields(),
		DefaultNamespaces:    map[string]cache.Config{w.HostNamespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.ClusterNameLabel: w.ClusterName}),
	}
}

func (w *worker) hubNamespace() string { return w.hubProbe.Cluster().Status.Namespace }

// addControllers wires the controllers. The clients of the caches are gated.
func (w *worker) addControllers(ctx context.Context, c clusters) error {
	hub, target := c.hub.GetClient(), c.target.GetClient()
	waker := machine.NewWaker(w.hubNamespace(), hub, w.monitor, w.parts.machineThaws)
	clientset, disruptions, err := w.newDisruptions(c)
	if err != nil {
		return err
	}
	drivers, err := w.makeDrivers(ctx, c, waker, disruptions.PlanFor)
	if err != nil {
		return err
	}
	w.hubIdentity.SetInstanceCounter(instancesOf(drivers))
	if err := w.watchLosses(ctx, c.hub.GetCache()); err != nil {
		return err
	}
	requests, err := csrapprover.New(csrapprover.Deps{
		ClusterName:   w.ClusterName,
		BootstrapUser: fmt.Sprintf("system:serviceaccount:%s:%s", w.TargetNamespace, hollow.BootstrapServiceAccount),
		Hub:           hub, Target: target, TargetReader: c.target.GetAPIReader(),
		Identities: hollow.Identities{Reader: c.host.GetAPIReader(), Namespace: w.HostNamespace, Cluster: w.ClusterName},
		Metrics:    w.parts.approverMetrics,
	})
	if err != nil {
		return err
	}
	recorder := c.hub.GetEventRecorder("hollowfleet-agent")
	machines, err := w.newMachines(c, clientset, drivers, requests, recorder, waker)
	if err != nil {
		return err
	}
	checker, err := w.newChecker(c, clientset)
	if err != nil {
		return err
	}
	preThawSync := machine.NewPreThawSync(waker, w.clock)
	relister, err := w.relister(c, checker, preThawSync)
	if err != nil {
		return err
	}
	finder := machines.OrphanFinder()
	w.facts.known.Store(&sources{capacity: w.capacityReader(c.target), orphans: finder, checks: checker})
	return errors.Join(
		addMachineController(c, w.monitor, machines, waker, preThawSync),
		addRequestController(c, w.monitor, requests, w.parts.approverThaws),
		c.hub.Add(finder),
		c.hub.Add(checker),
		c.hub.Add(disruptions),
		w.addLoadTests(c, clientset),
		w.addSimulatedClusters(c),
		w.addMachineLogs(c),
		w.addVolumes(ctx, c),
		c.hub.Add(manager.RunnableFunc(func(ctx context.Context) error {
			return w.parts.undecodable.Run(ctx, c.hub.GetCache(), w.Log.WithName("undecodable"), recorder, &v1alpha1.Machine{}, &v1alpha1.MachineClass{})
		})),
		c.hub.Add(relister),
		c.hub.Add(w.hubIdentity.Continuity()),
		c.hub.Add(w.denial.Admission()),
	)
}

// watchLosses tells what knows the hub when a Machine is gone.
func (w *worker) watchLosses(ctx context.Context, from cache.Cache) error {
	machines, err := from.GetInformer(ctx, &v1alpha1.Machine{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("caching Machines: %w", err)
	}
	if _, err := machines.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { w.hubIdentity.MachineLost() }}); err != nil {
		return fmt.Errorf("watching Machines for losses: %w", err)
	}
	return nil
}

// newMachines makes the controller of Machines.
func (w *worker) newMachines(c clusters, clientset kubernetes.Interface, drivers map[string]driver.Driver, requests *csrapprover.Controller, recorder events.EventRecorder, waker *machine.Waker) (*machine.Controller, error) {
	return machine.New(machine.Deps{
		Hub: machine.Hub{
			ClusterName: w.ClusterName, Client: c.hub.GetClient(), Reader: undecodable.Reader(c.hub.GetAPIReader()), Refresh: w.hubIdentity.Verify,
		},
		Target: machine.Target{
			Client: c.target.GetClient(), Reader: c.target.GetAPIReader(), Drain: drain.New(clientset, w.clock, w.monitor), Requests: requests, Version: w.targetVersion,
		},
		Drivers:   drivers,
		Freeze:    machine.Freeze{Checker: w.monitor, Downtime: w.monitor, ThawLimiter: w.thawLimiter},
		Wake:      waker.Wake,
		Reporting: machine.Reporting{Recorder: recorder, Metrics: w.parts.machineMetrics, Tracing: w.exporter.Tracers},
		Clock:     w.clock,
	})
}

// newChecker makes what reads for the hub's checks.
func (w *worker) newChecker(c clusters, target kubernetes.Interface) (*checks.Checker, error) {
	return checks.New(checks.Deps{
		Target: target, Nodes: c.target.GetClient(), Host: c.host.GetAPIReader(), HostNamespace: w.HostNamespace,
		Cluster: clusterstatus.ReportableCluster{ClusterCache: w.hubProbe, Denied: w.denial.Blocked}.Cluster, Freeze: w.monitor, Runtime: w.pollRuntime("checks"),
	})
}

// relister holds every cache against its API server after a freeze.
func (w *worker) relister(c clusters, checker *checks.Checker, preThawSync *machine.PreThawSync) (*relist.Relister, error) {
	return relist.New(relist.Deps{
		Tell: func(ctx context.Context, freeze uint64) (int, error) {
			checker.ReadBeforeThaw(ctx, freeze)
			return preThawSync.Run(ctx, freeze)
		},
		Caches: c.informers, Freeze: w.monitor, Changes: w.parts.relistDue,
		Runtime: w.pollRuntime("relist"), Metrics: w.parts.relistMetrics,
		Prepare: func(ctx context.Context) error {
			for _, from := range []struct {
				cache   cache.Cache
				objects []client.Object
			}{
				{c.hub.GetCache(), []client.Object{&v1alpha1.Machine{}, &v1alpha1.MachineClass{}}},
				{c.target.GetCache(), []client.Object{&corev1.Node{}, &certificatesv1.CertificateSigningRequest{}}},
				{c.host.GetCache(), []client.Object{&corev1.Pod{}}},
			} {
				for _, object := range from.objects {
					if _, err := from.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
						return fmt.Errorf("caching %T: %w", object, err)
					}
				}
			}
			return nil
		},
	})
}

// targetVersion returns the version of the target's API server, empty before it has answered.
func (w *worker) targetVersion() string {
	_, version := w.targetProbe.Identity()
	return version
}

// capacityReader sums up the Nodes that carry the agent's annotation. It returns nil while they are not known.
func (w *worker) capacityReader(target cluster.Cluster) func(context.Context) corev1.ResourceList {
	namespace := w.hubNamespace()
	return func(ctx context.Context) corev1.ResourceList {
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if !target.GetCache().WaitForCacheSync(bounded) {
			return nil
		}
		nodes := &corev1.NodeList{}
		if err := target.GetClient().List(bounded, nodes, client.UnsafeDisableDeepCopy); err != nil {
			return nil
		}
		var own []corev1.Node
		for _, n := range nodes.Items {
			if n.Annotations[v1alpha1.NodeClusterNamespaceAnnotation] == namespace {
				own = append(own, n)
			}
		}
		return clusterstatus.Sum(own)
	}
}
