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
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
	"github.com/hollowfleet/hollowfleet/agent/internal/machine"
	"github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/agent/internal/relist"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

const (
	// syncTimeout is how long caches may take: an API server that is away is waited for, not given up.
	syncTimeout = 100 * 365 * 24 * time.Hour
	// reconcileTimeout bounds one reconcile, so that a request that hangs does not hold a worker for ever.
	reconcileTimeout = 30 * time.Second
	stopTimeout      = 10 * time.Second
	workers          = 10
)

// parts are what outlives the controllers, should they be made anew.
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

// clusters are the caches and gated clients of the agent.
type clusters struct {
	hub          manager.Manager
	target, host cluster.Cluster
	// informers are those of all of them.
	informers *relist.Caches
}

// work runs the controllers until ctx ends.
func (a *agent) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer utilnet.CloseIdleConnectionsFor(a.hub.Transport)
	a.doing.Store("working")
	a.Log.Info("Working", "Cluster", a.ClusterName, "hub", a.hub.Host, "target", a.target.Host, "host", a.host.Host)
	c, err := a.clusters(ctx)
	if err != nil {
		return err
	}
	if err := csrapprover.Index(ctx, c.target.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing certificate requests: %w", err)
	}
	defer a.hubIdentity.Instances(nil)
	if err := a.addControllers(ctx, c); err != nil {
		return err
	}
	read := a.capacityReader(c.target)
	a.capacity.Store(&read)
	if err := c.hub.Start(ctx); err != nil {
		return fmt.Errorf("running the controllers: %w", err)
	}
	return nil
}

// clusters makes the caches. The hub's is the manager's; those of target and host are two also when they are the
// same cluster: they share connections and nothing that they hold is in both.
func (a *agent) clusters(ctx context.Context) (clusters, error) {
	c := clusters{informers: &relist.Caches{}}
	newCache := clients.NewCacheUntil(ctx)
	scheme, err := clients.Scheme()
	if err != nil {
		return c, err
	}
	c.hub, err = manager.New(clients.Gated(a.hub, a.gate.HubRoundTripper), manager.Options{
		Scheme: scheme, MapperProvider: mapper, Logger: a.Log,
		NewCache: newCache, NewClient: undecodable.NewClient,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{a.hubNamespace(): {}},
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
	target, host := a.targetCache(), a.hostCache()
	target.NewInformer, host.NewInformer = c.informers.NewInformer("target"), c.informers.NewInformer("host")
	if c.target, err = a.addCluster(c.hub, scheme, a.target, newCache, target); err != nil {
		return c, fmt.Errorf("making the target's cache: %w", err)
	}
	if c.host, err = a.addCluster(c.hub, scheme, a.host, newCache, host); err != nil {
		return c, fmt.Errorf("making the host's cache: %w", err)
	}
	return c, nil
}

func (a *agent) addCluster(to manager.Manager, scheme *runtime.Scheme, config *rest.Config, newCache cache.NewCacheFunc, options cache.Options) (cluster.Cluster, error) {
	made, err := cluster.New(clients.Gated(config, a.gate.RoundTripper), func(o *cluster.Options) {
		o.Scheme, o.MapperProvider, o.Logger, o.NewCache, o.Cache = scheme, mapper, a.Log, newCache, options
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}
	})
	if err != nil {
		return nil, err
	}
	return made, to.Add(made)
}

func mapper(*rest.Config, *http.Client) (meta.RESTMapper, error) { return clients.Mapper(), nil }

// targetCache holds hollow Nodes and the certificate requests of kubelets. With other providers than hollow it
// holds every Node: theirs carry no label to select them by.
func (a *agent) targetCache() cache.Options {
	nodes := cache.ByObject{Transform: node.Shrink}
	if len(a.Drivers) == 0 {
		nodes.Label = labels.SelectorFromSet(labels.Set{v1alpha1.HollowNodeLabel: "true"})
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: nodes,
			&certificatesv1.CertificateSigningRequest{}: {
				Field: fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientKubeletSignerName),
			},
		},
	}
}

// hostCache holds this cluster's pods.
func (a *agent) hostCache() cache.Options {
	return cache.Options{
		DefaultTransform:     cache.TransformStripManagedFields(),
		DefaultNamespaces:    map[string]cache.Config{a.HostNamespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.ClusterNameLabel: a.ClusterName}),
	}
}

func (a *agent) hubNamespace() string { return a.hubProbe.Cluster().Status.Namespace }

// addControllers wires the controllers. The clients of the caches are gated.
func (a *agent) addControllers(ctx context.Context, c clusters) error {
	hub, target := c.hub.GetClient(), c.target.GetClient()
	waker := machine.NewWaker(a.hubNamespace(), hub, a.monitor, a.parts.machineThaws)
	clientset, disruptions, err := a.newDisruptions(c)
	if err != nil {
		return err
	}
	drivers, err := a.drivers(ctx, c, waker, disruptions.PlanFor)
	if err != nil {
		return err
	}
	a.hubIdentity.Instances(instancesOf(drivers))
	requests, err := csrapprover.New(csrapprover.Deps{
		ClusterName:   a.ClusterName,
		BootstrapUser: fmt.Sprintf("system:serviceaccount:%s:%s", a.TargetNamespace, hollow.BootstrapServiceAccount),
		Hub:           hub, Target: target, TargetReader: c.target.GetAPIReader(),
		ProviderID: func(machine string) string { return hollow.ProviderID(a.ClusterName, machine) },
		TokenIDs:   hollow.TokenIDReader(c.host.GetAPIReader(), a.HostNamespace, a.ClusterName),
		Metrics:    a.parts.approverMetrics,
	})
	if err != nil {
		return err
	}
	recorder := c.hub.GetEventRecorder("hollowfleet-agent")
	machines, err := machine.New(machine.Deps{
		ClusterName: a.ClusterName,
		Hub:         hub, HubReader: undecodable.Reader(c.hub.GetAPIReader()),
		Target: target, TargetReader: c.target.GetAPIReader(),
		Drivers: drivers, Requests: requests, Freeze: a.monitor, Downtime: a.monitor, ThawLimiter: a.pace, Refresh: a.hubIdentity.Verify,
		Drain: drain.New(clientset, a.clock, a.monitor), ServerVersion: a.targetVersion, Wake: waker.Wake,
		Recorder: recorder,
		Clock:    a.clock, Metrics: a.parts.machineMetrics, Tracing: a.exporter.Tracers,
	})
	if err != nil {
		return err
	}
	checker, err := a.newChecker(c, clientset)
	if err != nil {
		return err
	}
	preThawSync := machine.NewPreThawSync(waker, a.clock)
	relister, err := a.relister(c, checker, preThawSync)
	if err != nil {
		return err
	}
	finder := machines.OrphanFinder()
	a.orphans.Store(finder)
	return errors.Join(
		addMachineController(c, a.monitor, machines, waker, preThawSync),
		addRequestController(c, a.monitor, requests, a.parts.approverThaws),
		c.hub.Add(finder),
		c.hub.Add(checker),
		c.hub.Add(disruptions),
		a.addLoadTests(c, clientset),
		c.hub.Add(manager.RunnableFunc(func(ctx context.Context) error {
			return a.parts.undecodable.Run(ctx, c.hub.GetCache(), a.Log.WithName("undecodable"), recorder, &v1alpha1.Machine{}, &v1alpha1.MachineClass{})
		})),
		c.hub.Add(relister),
		c.hub.Add(a.hubIdentity.Continuity()),
		c.hub.Add(a.denial.Admission()),
	)
}

// newChecker makes what reads for the hub's checks.
func (a *agent) newChecker(c clusters, target kubernetes.Interface) (*checks.Checker, error) {
	checker, err := checks.New(checks.Deps{
		Target: target, Nodes: c.target.GetClient(), Host: c.host.GetAPIReader(), HostNamespace: a.HostNamespace,
		Cluster: a.reportedCluster, Freeze: a.monitor, Clock: a.clock, Log: a.Log.WithName("checks"),
	})
	a.checker.Store(checker)
	return checker, err
}

// relister holds every cache against its API server after a freeze.
func (a *agent) relister(c clusters, checker *checks.Checker, preThawSync *machine.PreThawSync) (*relist.Relister, error) {
	return relist.New(relist.Deps{
		Tell: func(ctx context.Context, freeze uint64) (int, error) {
			checker.ReadBeforeThaw(ctx, freeze)
			return preThawSync.Run(ctx, freeze)
		},
		Caches: c.informers, Freeze: a.monitor, Changes: a.parts.relistDue, Clock: a.clock,
		Log: a.Log.WithName("relist"), Metrics: a.parts.relistMetrics,
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
func (a *agent) targetVersion() string {
	_, version := a.targetProbe.Identity()
	return version
}

// drivers makes the driver of every provider, with gated clients, behind the gate.
func (a *agent) drivers(ctx context.Context, c clusters, waker *machine.Waker, plan func(context.Context, *v1alpha1.Machine) (string, error)) (map[string]driver.Driver, error) {
	ca, err := clients.CertificateAuthority(a.target)
	if err != nil {
		return nil, err
	}
	server := a.TargetServerURL
	if server == "" {
		server = a.target.Host
	}
	factories := map[string]driver.Factory{
		v1alpha1.ProviderHollow: hollow.Factory(hollow.Options{Image: a.HollowNodeImage, ServerURL: server, ServerCA: ca, HollowTaint: a.HollowTaint}),
	}
	for name, factory := range a.Drivers {
		factories[name] = factory
	}
	environment := driver.Environment{
		ClusterName: a.ClusterName, Changed: waker.Wake, Clock: a.clock, DisruptionPlan: plan,
		Target: a.access(c.target, a.TargetNamespace), Host: a.access(c.host, a.HostNamespace),
	}
	drivers := map[string]driver.Driver{}
	for name, factory := range factories {
		environment.Log = a.Log.WithName("driver").WithName(name)
		made, err := factory(ctx, environment)
		if err != nil {
			return nil, fmt.Errorf("making the driver of provider %q: %w", name, err)
		}
		drivers[name] = a.gate.Driver(made)
	}
	return drivers, nil
}

func (a *agent) access(c cluster.Cluster, namespace string) driver.Access {
	return driver.Access{Client: c.GetClient(), Reader: c.GetAPIReader(), Informers: c.GetCache(), Namespace: namespace}
}

// instancesOf returns a function that counts the instances of all drivers, without those that are being removed.
func instancesOf(drivers map[string]driver.Driver) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		count := 0
		for provider, of := range drivers {
			instances, err := driver.Count(ctx, of)
			if err != nil {
				return 0, fmt.Errorf("counting the instances of provider %q: %w", provider, err)
			}
			count += instances
		}
		return count, nil
	}
}

// capacityReader sums up the Nodes that carry the agent's annotation. It returns nil while they are not known.
func (a *agent) capacityReader(target cluster.Cluster) func(context.Context) corev1.ResourceList {
	namespace := a.hubNamespace()
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
