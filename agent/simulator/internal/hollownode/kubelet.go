package hollownode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientset "k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletapi "k8s.io/kubernetes/pkg/kubelet/apis/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/util/oom"
	"k8s.io/kubernetes/pkg/volume/util/subpath"

	plan "github.com/hollowfleet/hollowfleet/apis/disrupt"
	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/minor"
)

// adoptTimeout bounds the one request before a kubelet is built.
const adoptTimeout = 5 * time.Second

// node is a hollow kubelet in the making.
type node struct {
	configuration contract.Configuration
	options       Options
	settings      *kubeletapi.KubeletConfiguration
	*hardware
	registration *registration
	disruption   *disruption
	life         *life
	// restarts is set when the kubelet ends to start again.
	restarts atomic.Bool
	// client is the main one of the kubelet, once it is built.
	client clientset.Interface
	// port is nil until it is open, and if there is none.
	port *kubeletPort
}

// newNode puts together what does not need the API server.
func newNode(c contract.Configuration, options Options) (*node, error) {
	machine, err := newHardware(c, options)
	if err != nil {
		return nil, err
	}
	return newNodeOn(machine, c, options)
}

// newNodeOn is newNode on a machine that is there.
func newNodeOn(machine *hardware, c contract.Configuration, options Options) (*node, error) {
	settings, err := kubeletSettings(c, options.StateDir)
	if err != nil {
		return nil, err
	}
	if err := shared.setGates(c); err != nil {
		return nil, err
	}
	life := newLife()
	evicts := c.KubeletConfiguration != nil && c.KubeletConfiguration.Evictions != nil
	n := &node{
		configuration: c,
		options:       options,
		settings:      settings,
		hardware:      machine,
		life:          life,
	}
	n.disruption = newDisruption(c.NodeName, machine.runtime.Gate(), life, evicts, func(run string) { n.endForDisruption(run, plan.Shutdown) })
	n.disruption.devices, n.disruption.claims = machine.devices, machine.claims
	return n, nil
}

// clients are the kubelet's three ways to the API server, over one connection: heartbeats must not wait
// behind other requests, and events must not take their place.
type clients struct {
	main, heartbeat clientset.Interface
	events          typedcorev1.EventsGetter
}

func (n *node) makeClients(config *rest.Config) (clients, error) {
	main := rest.CopyConfig(config)
	main.QPS, main.Burst = float32(n.settings.KubeAPIQPS), int(n.settings.KubeAPIBurst)
	heartbeat := rest.CopyConfig(config)
	lease := time.Duration(n.settings.NodeLeaseDurationSeconds) * time.Second
	heartbeat.QPS, heartbeat.Timeout = -1, min(n.settings.NodeStatusUpdateFrequency.Duration, lease)
	events := rest.CopyConfig(config)
	events.QPS, events.Burst = float32(n.settings.EventRecordQPS), int(n.settings.EventBurst)
	if n.settings.EventRecordQPS == 0 {
		events.QPS = -1 // No limit, as for a kubelet; the client takes 0 for its default.
	}
	for _, config := range []*rest.Config{main, heartbeat, events} {
		config.Wrap(n.life.guardRequests)
	}
	main.Wrap(n.disruption.api.Client(plan.ClientMain))
	heartbeat.Wrap(n.disruption.api.Client(plan.ClientHeartbeat))
	events.Wrap(n.disruption.api.Client(plan.ClientEvents))

	var made clients
	var problems [3]error
	made.main, problems[0] = clientset.NewForConfig(main)
	made.heartbeat, problems[1] = newHeartbeatClient(made.main, heartbeat)
	made.events, problems[2] = typedcorev1.NewForConfig(events)
	if err := errors.Join(problems[:]...); err != nil {
		return clients{}, fmt.Errorf("making the kubelet's clients: %w", err)
	}
	return made, nil
}

// heartbeatClient is a client for Nodes and Leases, and the main one for all else: clients for all groups of the API take 30 KiB.
type heartbeatClient struct {
	clientset.Interface
	core         *typedcorev1.CoreV1Client
	coordination *typedcoordinationv1.CoordinationV1Client
}

func newHeartbeatClient(main clientset.Interface, config *rest.Config) (clientset.Interface, error) {
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	coordination, err := typedcoordinationv1.NewForConfig(config)
	return heartbeatClient{main, core, coordination}, err
}

// CoreV1 returns the client for Nodes.
func (c heartbeatClient) CoreV1() typedcorev1.CoreV1Interface { return c.core }

// CoordinationV1 returns the client for Leases.
func (c heartbeatClient) CoordinationV1() typedcoordinationv1.CoordinationV1Interface {
	return unmanagedCoordination{c.coordination}
}

// buildKubelet makes the kubelet. Nothing of it runs before start.
func (n *node) buildKubelet(ctx context.Context, config *rest.Config) (*kubelet.Kubelet, *kubelet.Dependencies, error) {
	made, err := n.makeClients(config)
	if err != nil {
		return nil, nil, err
	}
	n.client = made.main
	n.adoptPodCIDRs(ctx, config)
	n.registration = newRegistration(made.heartbeat, n.configuration.ProviderID, n.setNode)
	dependencies := n.kubeletDependencies(ctx, made)
	if dependencies.ContainerManager, err = newResources(ctx, n.configuration, n.hardware, made.main); err != nil {
		return nil, nil, fmt.Errorf("building the kubelet: %w", err)
	}
	var built *kubelet.Kubelet
	dependencies.OnHeartbeatFailure = func() {
		utilnet.CloseIdleConnectionsFor(config.Transport)
		if !n.configuration.EffectiveFidelity().RegisterOnce {
			n.registration.restoreNode(ctx, built.GetNode)
		}
	}
	recorder := newRecorder(ctx, n.configuration.NodeName, made.events)
	deferRecorder(dependencies, recorder)
	var isBuilt atomic.Bool
	if err := n.watchPods(ctx, dependencies, func() bool {
		if !isBuilt.Load() {
			return false
		}
		_, err := built.GetNode(ctx)
		return err == nil
	}); err != nil {
		return nil, nil, err
	}

	var tuning error
	dependencies.Options = []kubelet.Option{func(k *kubelet.Kubelet) { tuning = n.tuneKubelet(k) }}
	built, err = n.newKubelet(ctx, dependencies)
	if err != nil {
		return nil, nil, fmt.Errorf("building the kubelet: %w", err)
	}
	if tuning != nil {
		return nil, nil, fmt.Errorf("tuning the kubelet: %w", tuning)
	}
	if dependencies.Recorder != recorder {
		return nil, nil, errors.New("building the kubelet: it did not take the event recorder")
	}
	if err := n.prepareKubelet(built); err != nil {
		return nil, nil, err
	}
	n.pods.useLookup(built.GetPodByName)
	isBuilt.Store(true)
	return built, dependencies, nil
}

// prepareKubelet reaches into a kubelet that does not run yet: for its end, disruptions, shutdowns, and what its Node says.
func (n *node) prepareKubelet(k *kubelet.Kubelet) error {
	if err := n.guardLoops(k); err != nil {
		return fmt.Errorf("preparing the end of the node: %w", err)
	}
	if err := n.disruption.attachTo(k); err != nil {
		return fmt.Errorf("preparing the kubelet for disruptions: %w", err)
	}
	if err := n.delayShutdowns(k); err != nil {
		return fmt.Errorf("preparing the kubelet for shutdowns: %w", err)
	}
	if err := addStatusSetter(k, n.setVersion); err != nil {
		return fmt.Errorf("reporting the version of the configuration: %w", err)
	}
	if err := errors.Join(addStatusSetter(k, n.setHeartbeatLabels), addStatusSetter(k, n.setReachableAddress)); err != nil {
		return fmt.Errorf("reporting heartbeats and address of the configuration: %w", err)
	}
	queue, err := watchWorkQueue(k, n.runtime.Gate())
	if err == nil {
		err = addStatusSetter(k, queue.setCondition)
	}
	if err != nil {
		return fmt.Errorf("watching the kubelet's work queue: %w", err)
	}
	return nil
}

// adoptPodCIDRs gives the network the pod CIDRs that the Node has already, so that one whose kubelet starts again, or moves to another
// process, is not NotReady until the kubelet has read its Node. Whatever fails is left to the kubelet.
func (n *node) adoptPodCIDRs(ctx context.Context, config *rest.Config) {
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	// Not one of the kubelet's clients: this goroutine must not end with the node.
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return
	}
	found, err := client.Nodes().Get(ctx, n.configuration.NodeName, metav1.GetOptions{})
	if err != nil || found.Spec.ProviderID != n.configuration.ProviderID {
		return
	}
	_ = n.runtime.UpdateRuntimeConfig(ctx, &runtimeapi.RuntimeConfig{
		NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: strings.Join(found.Spec.PodCIDRs, ",")},
	})
}

func (n *node) kubeletDependencies(ctx context.Context, made clients) *kubelet.Dependencies {
	dependencies := &kubelet.Dependencies{
		KubeClient:                n.registration.wrapClient(made.main),
		HeartbeatClient:           n.registration.wrapClient(made.heartbeat),
		EventClient:               made.events,
		RemoteRuntimeService:      guardedRuntime{n.runtime, n.life},
		RemoteImageService:        n.images,
		CAdvisorInterface:         newMachine(n.configuration, n.hardware),
		OSInterface:               kubecontainer.RealOS{},
		OOMAdjuster:               oom.NewFakeOOMAdjuster(),
		Mounter:                   mounter{},
		Subpather:                 &subpath.FakeSubpath{},
		HostUtil:                  newHost(),
		VolumePlugins:             append(volumePlugins(), n.storage.plugins(n.life.ended)...),
		PodStartupLatencyTracker:  kubeletutil.NewPodStartupLatencyTracker(),
		NodeStartupLatencyTracker: minor.NewNodeStartupLatencyTracker(klog.FromContext(ctx)),
	}
	if !n.runsProbes() {
		dependencies.ProbeManager = succeedingProbes{}
	}
	return dependencies
}

// runsProbes reports whether the kubelet has its own prober.
func (n *node) runsProbes() bool {
	return n.configuration.EffectiveFidelity().Probes == contract.ProbesRun
}

// newKubelet calls the kubelet's constructor, most of whose arguments are options of its command line.
func (n *node) newKubelet(ctx context.Context, dependencies *kubelet.Dependencies) (*kubelet.Kubelet, error) {
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	kubelet.ContainerLogsDir = filepath.Join(cmp.Or(n.options.SharedDir, n.options.StateDir), "container-logs")
	const (
		minimumGCAge            = time.Minute
		deadContainersPerPod    = 1
		deadContainersTotal     = 100
		imagesInStatus          = 50
		noCloudProvider         = ""
		noMounterPath           = ""
		noKernelNotification    = false
		ignoreEvictionThreshold = false
		seccompDefault          = false
	)
	s := n.settings
	var built *kubelet.Kubelet
	err := shared.buildAlone(n.life, func() (err error) {
		built, err = kubelet.NewMainKubelet(ctx, s, dependencies, &kubeletconfig.ContainerRuntimeOptions{},
			n.configuration.NodeName, types.NodeName(n.configuration.NodeName), []net.IP{n.internalAddress()},
			s.ProviderID, noCloudProvider, certificateDir(n.options.StateDir), kubeletDir(n.options.StateDir), s.PodLogsDir,
			"", "", s.RegisterNode, s.RegisterWithTaints, nil, noMounterPath, noKernelNotification, ignoreEvictionThreshold,
			metav1.Duration{Duration: minimumGCAge}, deadContainersPerPod, deadContainersTotal,
			nodeLabels(n.configuration), imagesInStatus, seccompDefault)
		return err
	})
	return built, err
}

// internalAddress is the Node's internal address: the one health is served on, else that of the interface with
// the default route. The kubelet would look the latter up in the DNS, with every heartbeat.
func (n *node) internalAddress() net.IP {
	bind, err := netip.ParseAddr(n.options.BindAddress)
	if err != nil || bind.IsUnspecified() {
		if routed, err := utilnet.ResolveBindAddress(nil); err == nil {
			return routed
		}
		bind = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return contract.NodeAddress(bind).AsSlice()
}

// startKubelet runs the kubelet until its node's life ends.
func (n *node) startKubelet(ctx context.Context, k *kubelet.Kubelet, dependencies *kubelet.Dependencies) {
	k.BirthCry()
	k.StartGarbageCollection(ctx)
	shared.startAlone(ctx, n.life, func() { k.Run(ctx, dependencies.PodConfig.Updates()) })
}

// kubeletDir is the kubelet's directory.
func kubeletDir(stateDir string) string { return filepath.Join(stateDir, "kubelet") }

// certificateDir is where the node's key and certificate are kept.
func certificateDir(stateDir string) string { return filepath.Join(stateDir, "pki") }
