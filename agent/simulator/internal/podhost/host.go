package podhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
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
	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/address"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/process"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/support"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/volume"
)

// errKeeperEnded makes a podhost that can start no more processes end.
var errKeeperEnded = errors.New("the keeper of the pods' processes was killed, and they with it")

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
	config.QPS, config.Burst = clientQPS, clientBurst
	// The client is made of the files, so that it follows a certificate that is renewed.
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the API client: %w", err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// Other users may pass through the data directory to the volumes of pods
	// that run as them. What is in it is protected by itself.
	if err := os.MkdirAll(options.DataDir, 0o711); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	if err := poddir.Take(filepath.Join(options.DataDir, logDirectory), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory for logs: %w", err)
	}
	marker, err := markerOf(options.DataDir)
	if err != nil {
		return nil, err
	}
	claim, err := address.Claim()
	if err != nil {
		return nil, err
	}
	base, err := volume.Base(options.DataDir, support.CurrentUser().IsRoot())
	if err != nil {
		return nil, errors.Join(err, claim.Release())
	}
	launcher, err := process.NewLauncher()
	if err != nil {
		return nil, errors.Join(err, volume.Leave(options.DataDir), claim.Release())
	}
	return &host{
		options: options, config: config, client: client, claim: claim,
		launcher: launcher, base: base, marker: marker,
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

// release gives back what newHost claimed. Processes that were left when
// the launcher's keeper was killed are found by their marker.
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
	// An earlier podhost that was killed took its processes along, unless its
	// launcher's keeper was killed too.
	if err := process.KillMarked(h.marker); err != nil {
		return err
	}
	if err := takePackDirectory(filepath.Join(h.options.DataDir, packDirectory)); err != nil {
		return err
	}
	logger := klog.FromContext(ctx).WithName("podhost").WithValues("node", h.options.Name)
	ctx, fail := context.WithCancelCause(klog.NewContext(ctx, logger))
	cancel := func() { fail(nil) }
	defer cancel()
	go func() {
		select {
		case <-h.launcher.Done():
			fail(errKeeperEnded)
		case <-ctx.Done():
		}
	}()

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
	err = h.serve(ctx, p, controller, pods, services)
	if cause := context.Cause(ctx); errors.Is(cause, errKeeperEnded) {
		return cause
	}
	return err
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
	if ordered := ctx.Err() != nil; ordered {
		podsErr = nil // it only says that the context has ended
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
