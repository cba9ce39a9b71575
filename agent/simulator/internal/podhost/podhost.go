// Package podhost runs the pods of a Kubernetes node as processes of this
// machine, for clusters in which no kubelet runs. It is a virtual-kubelet node
// with the identity of a real one: the Node authorizer and the NodeRestriction
// admission apply to it.
//
// What is like on a kubelet: restart policies and back-off, init containers,
// probes, environment, downward API, Secret, ConfigMap, projected and emptyDir
// volumes, statuses, logs, and deletion with a grace period.
//
// What differs, because there are no containers:
//
//   - An image is a directory that plays the root file system. A container
//     needs a command; its program is looked for in that directory.
//   - Volumes do not appear at their mount paths. Instead, mount paths in the
//     command, arguments, literal environment values and working directory are
//     replaced by the volumes' directories. A mount that is mentioned nowhere
//     is refused. Files must not mention mount paths.
//   - A pod has a loopback address of its own, to which its processes are to
//     bind. Nothing keeps them from binding to others.
//   - A podhost that runs as root runs containers as the users they name, as
//     user 65532 if they name none and must not be root, and else as root. Any
//     other podhost runs them as its own user: in place of another number only
//     if runAsNonRoot is set, as a user namespace would map it.
//   - Seccomp and AppArmor profiles "RuntimeDefault" are unconfined.
//   - Requests count for the scheduler, limits are refused.
//   - Names are resolved as the machine does it, whatever dnsPolicy says.
//   - terminationMessagePath is not read; terminationMessagePolicy
//     FallbackToLogsOnError works.
//   - When the podhost ends, however it ends, the processes end with it. The
//     next podhost of the same Node starts the pods again as far as their
//     restart policies allow. The content of emptyDir volumes stays.
//
// Everything else that a spec can ask for is refused: the pod stays pending
// and an event with reason Unsupported names the fields. Package support has
// the list.
package podhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/log"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/token"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/address"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/image"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/support"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/volume"
)

const (
	// workers is how many pods are started, and how many statuses written, at
	// the same time.
	workers = 16
	// clientQPS and clientBurst leave room for many pods that start at once.
	clientQPS   = 100
	clientBurst = 200
	// markerName names the variable that marks the processes of a podhost.
	markerName   = "HOLLOWFLEET_PODHOST"
	logDirectory = "logs"
	// controllersTimeout bounds the wait for the controllers at the end. They
	// may be waiting for an API server that does not answer.
	controllersTimeout = 2 * time.Second
)

// Run runs a podhost until the context ends. All processes of its pods have
// ended when it returns.
func Run(ctx context.Context, options Options) (err error) {
	if err := options.complete(); err != nil {
		return err
	}
	h, err := newHost(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.release()) }()
	return h.run(ctx)
}

// Clean removes the files that a podhost left, inside its data directory and
// outside it. No podhost may be using the directory.
func Clean(dataDir string) error {
	return errors.Join(volume.Clean(dataDir), os.RemoveAll(filepath.Join(dataDir, logDirectory)))
}

// host is a podhost with everything that it holds.
type host struct {
	options  Options
	config   *rest.Config
	client   kubernetes.Interface
	claim    *address.Range
	launcher *process.Launcher
	base     string
	marker   string
}

// newHost claims what the podhost needs of the machine.
func newHost(options Options) (*host, error) {
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the API client: %w", err)
	}
	// Other users may pass through the data directory to the volumes of pods
	// that run as them. What is in it is protected by itself.
	if err := errors.Join(os.MkdirAll(options.DataDir, 0o711), os.MkdirAll(filepath.Join(options.DataDir, logDirectory), 0o700)); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	base, err := volume.Base(options.DataDir, support.CurrentUser().IsRoot())
	if err != nil {
		return nil, err
	}
	marker, err := markerOf(options.DataDir)
	if err != nil {
		return nil, err
	}
	claim, err := address.Claim()
	if err != nil {
		return nil, err
	}
	return &host{
		options: options, config: config, client: client, claim: claim,
		launcher: process.NewLauncher(), base: base, marker: marker,
	}, nil
}

// markerOf returns the variable that marks the processes of the podhost with
// this data directory.
func markerOf(dataDir string) (string, error) {
	path, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("finding the data directory: %w", err)
	}
	sum := sha256.Sum256([]byte(path))
	return markerName + "=" + hex.EncodeToString(sum[:8]), nil
}

// release gives back what newHost claimed. Processes that left their group are
// found by their marker.
func (h *host) release() error {
	h.launcher.Close()
	return errors.Join(process.KillMarked(h.marker), volume.Leave(h.options.DataDir), ignoreClosed(h.claim.Release()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (h *host) run(ctx context.Context) error {
	// An earlier podhost that was killed took its processes along, but not
	// those which they had started in turn.
	if err := process.KillMarked(h.marker); err != nil {
		return err
	}
	logger := klog.FromContext(ctx).WithName("podhost").WithValues("node", h.options.Name)
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	defer cancel()

	pods := informers.NewSharedInformerFactoryWithOptions(h.client, 0, nodeutil.PodInformerFilter(h.options.Name))
	services := informers.NewSharedInformerFactory(h.client, 0)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: h.client.CoreV1().Events(corev1.NamespaceAll)})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: runtimeName, Host: h.options.Name})

	p, err := h.newProvider(ctx, pods, services, recorder)
	if err != nil {
		return err
	}
	controller, err := h.newPodController(p, pods, recorder)
	if err != nil {
		return err
	}
	server, err := newKubeletServer(h.config, h.client, h.options.Name, h.claim.Host(), p)
	if err != nil {
		return err
	}
	go server.ServeTLS(h.claim.Listener(), "", "") //nolint:errcheck // it ends with Close
	defer server.Close()

	pods.Start(ctx.Done())
	services.Start(ctx.Done())
	defer p.finishing.Wait()
	defer cancel()
	defer p.close(h.options.ShutdownGrace)
	return h.serve(ctx, p, controller, pods, services)
}

// serve runs the controllers until the context ends, and then ends the pods.
func (h *host) serve(ctx context.Context, p *provider, controller *node.PodController, factories ...informers.SharedInformerFactory) error {
	for _, factory := range factories {
		for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return fmt.Errorf("reading the %s of the cluster: %w", kind, context.Cause(ctx))
			}
		}
	}
	if err := h.forgetDeletedPods(p); err != nil {
		return err
	}
	quiet := log.WithLogger(ctx, controllerLog{logger: klog.FromContext(ctx)})
	podsDone, nodeDone := make(chan struct{}), make(chan struct{})
	var podsErr error
	go func() {
		defer close(podsDone)
		podsErr = controller.Run(quiet, workers)
	}()
	select {
	case <-controller.Ready():
		go func() {
			defer close(nodeDone)
			address, port := h.claim.Host(), h.claim.Port()
			runNode(quiet, h.client, newNode(h.options, address, port), h.options.Ready)
		}()
	case <-podsDone:
		close(nodeDone)
	}
	<-podsDone

	klog.FromContext(ctx).Info("Stopping the pods", "grace", h.options.ShutdownGrace)
	p.close(h.options.ShutdownGrace)
	select {
	case <-nodeDone:
	case <-time.After(controllersTimeout):
	}
	if ctx.Err() != nil {
		return nil
	}
	return podsErr
}

// forgetDeletedPods removes the files of pods that were deleted meanwhile.
func (h *host) forgetDeletedPods(p *provider) error {
	pods, err := p.lister.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing the pods of the node: %w", err)
	}
	known := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		known[pod.UID] = true
	}
	return p.removeStrangers(known)
}

func (h *host) newProvider(ctx context.Context, pods, services informers.SharedInformerFactory, recorder record.EventRecorder) (*provider, error) {
	server, err := url.Parse(h.config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	port := server.Port()
	if port == "" {
		port = "443"
	}
	serviceLister := services.Core().V1().Services().Lister()
	// Creating it registers the informer with its factory.
	services.Core().V1().Services().Informer()
	objects := newObjects(h.client, h.options.RefreshPeriod)
	lister := pods.Core().V1().Pods().Lister()
	statuses := newStatusWriter(h.client, lister)
	p := &provider{
		ctx:     ctx,
		lister:  lister,
		objects: objects,
		remover: &remover{client: h.client, statuses: statuses},
		pods:    make(map[types.UID]*podlife.Pod),
	}
	p.runtime = &podlife.Runtime{
		Images:    image.Set(h.options.Images),
		Host:      support.CurrentUser(),
		Launcher:  h.launcher,
		Addresses: address.NewPool(h.claim.Prefix()),
		Volumes: &volume.Manager{
			Base: h.base, Objects: objects, Tokens: token.NewManager(h.client), Allocatable: h.options.Capacity,
		},
		Objects: objects,
		Services: func(namespace string) ([]*corev1.Service, error) {
			return serviceLister.Services(namespace).List(labels.Everything())
		},
		APIHost:       server.Hostname(),
		APIPort:       port,
		Allocatable:   h.options.Capacity,
		LogDir:        filepath.Join(h.options.DataDir, logDirectory),
		LogLimit:      h.options.LogLimit,
		Marker:        h.marker,
		Backoff:       h.options.Backoff,
		RefreshPeriod: h.options.RefreshPeriod,
		Recorder:      recorder,
		Publish:       p.publish,
	}
	return p, watchIdentity(ctx, pods.Core().V1().Pods().Informer(), p)
}

// newPodController makes virtual-kubelet's pod controller. nodeutil.NewNode is
// of no use here: it would watch all Secrets and ConfigMaps of the cluster,
// which a node may not, and its work queues let ten changes a second through.
func (h *host) newPodController(p *provider, pods informers.SharedInformerFactory, recorder record.EventRecorder) (*node.PodController, error) {
	// The controller insists on these informers, but reads them only to
	// resolve environment variables, which is done here. They are never started.
	unused := informers.NewSharedInformerFactory(h.client, 0)
	perPod := func() workqueue.TypedRateLimiter[any] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[any](queueFirstDelay, queueLastDelay)
	}
	controller, err := node.NewPodController(node.PodControllerConfig{
		PodClient:     &guard{PodsGetter: h.client.CoreV1(), provider: p, statuses: p.remover.statuses},
		PodInformer:   pods.Core().V1().Pods(),
		EventRecorder: quietRecorder{recorder},
		Provider:      p,

		ConfigMapInformer:         unused.Core().V1().ConfigMaps(),
		SecretInformer:            unused.Core().V1().Secrets(),
		ServiceInformer:           unused.Core().V1().Services(),
		SkipDownwardAPIResolution: true,

		SyncPodsFromKubernetesRateLimiter:        perPod(),
		SyncPodsFromKubernetesShouldRetryFunc:    retryForever,
		DeletePodsFromKubernetesRateLimiter:      perPod(),
		DeletePodsFromKubernetesShouldRetryFunc:  retryForever,
		SyncPodStatusFromProviderRateLimiter:     perPod(),
		SyncPodStatusFromProviderShouldRetryFunc: retryForever,
	})
	if err != nil {
		return nil, fmt.Errorf("making the pod controller: %w", err)
	}
	return controller, nil
}

const (
	queueFirstDelay = 5 * time.Millisecond
	queueLastDelay  = 10 * time.Second
)

// retryForever keeps what the controller would drop after 20 attempts, for
// instance a status that could not be written while the API server was away.
func retryForever(context.Context, string, int, time.Time, error) (*time.Duration, error) {
	return nil, nil
}
