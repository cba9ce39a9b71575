package podhost

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node/nodeutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/address"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/hollowpod"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/packs"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/poddir"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
)

// orderlyExit is how Options.LastExit starts after a stop.
const orderlyExit = "exit status 0"

// host is a podhost with everything that it holds.
type host struct {
	options Options
	config  *rest.Config
	client  kubernetes.Interface
	claim   *address.Range
	dir     *poddir.Directory
	// user is the user and group of hollow nodes if it is not this process's own, else 0.
	user int
}

// newHost claims what the podhost needs of the machine.
func newHost(options Options) (*host, error) {
	h := &host{options: options}
	if os.Geteuid() == 0 {
		h.user = hollowpod.User
	}
	if err := h.connect(); err != nil {
		return nil, err
	}
	// Other users may pass through the data directory to what belongs to nodes that run as them. What is in it is protected by itself.
	err := os.MkdirAll(options.DataDir, 0o711)
	if err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	if h.claim, err = address.Claim(); err != nil {
		return nil, err
	}
	if h.dir, err = poddir.Open(options.DataDir); err != nil {
		h.claim.Listener.Close()
	}
	return h, err
}

// connect makes the API client.
func (h *host) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", h.options.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	// The client is made of the files, so that it follows a certificate that is renewed.
	if h.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making the API client: %w", err)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	h.config = config
	return nil
}

// release gives back what newHost claimed.
func (h *host) release() {
	h.claim.Listener.Close()
	h.dir.Close()
}

// newPods returns what runs pods, in packs about which events of the Node tell.
func (h *host) newPods(ctx context.Context, lister corev1listers.PodLister, recorder record.EventRecorder) *pods {
	self := &corev1.ObjectReference{Kind: "Node", Name: h.options.Name, UID: types.UID(h.options.Name)}
	p := &pods{
		ctx: ctx, client: h.client, lister: lister, dir: h.dir, changed: newChanged(), known: map[types.UID]*knownPod{},
		settled: time.AfterFunc(settleTime, debug.FreeOSMemory),
	}
	if exit := h.options.LastExit; exit != "" && !strings.HasPrefix(exit, orderlyExit) {
		recorder.Eventf(self, corev1.EventTypeWarning, "PodhostEnded", "the podhost has ended (%s) with all hollow nodes of this cluster: they start again", exit)
	}
	launcher := packs.New(packs.Options{
		Directory: h.dir,
		Nodes:     h.options.NodesPerPack,
		User:      h.user,
		LogLimit:  h.options.LogLimit,
		Warn:      func(reason, message string) { recorder.Event(self, corev1.EventTypeWarning, reason, message) },
	})
	// A watch of each Secret would be a stream each, which costs both sides more than a look now and then.
	readSecret := func(namespace, name string) (*corev1.Secret, error) {
		return h.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	p.runtime = &podlife.Runtime{
		Namespace:     h.options.HollowNodesOf,
		Images:        h.options.Images,
		Packs:         launcher,
		Addresses:     h.claim,
		Files:         &podlife.Files{Base: h.dir.Path(), NodesBase: launcher.NodesBase(), Secret: readSecret, User: h.user},
		LogLimit:      h.options.LogLimit,
		FirstBackoff:  h.options.FirstBackoff,
		LastBackoff:   h.options.LastBackoff,
		RefreshPeriod: h.options.RefreshPeriod,
		Recorder:      recorder,
		Ending:        ctx.Done(),
		Changed:       func(uid types.UID) { p.changed.AddAfter(uid, writeDelay) },
	}
	return p
}

func (h *host) run(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithName("podhost").WithValues("node", h.options.Name)
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	defer cancel()
	factory := informers.NewSharedInformerFactoryWithOptions(h.client, 0, nodeutil.PodInformerFilter(h.options.Name), informers.WithTransform(dropManagedFields))
	informer := factory.Core().V1().Pods()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: h.client.CoreV1().Events(corev1.NamespaceAll)})

	p := h.newPods(ctx, informer.Lister(), broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: runtimeName, Host: h.options.Name}))
	defer p.runtime.Packs.Close()
	defer p.settled.Stop()
	server, err := newKubeletServer(h.config, h.client, h.options.Name, p)
	if err != nil {
		return err
	}
	go server.ServeTLS(h.claim.Listener, "", "") //nolint:errcheck // it ends with Close
	defer server.Close()

	_ = informer.Informer() // It is registered with its factory by that.
	factory.Start(ctx.Done())
	if !factory.WaitForCacheSync(ctx.Done())[podType] {
		return fmt.Errorf("reading the pods of the node: %w", context.Cause(ctx))
	}
	listed, err := informer.Lister().List(labels.Everything())
	if err == nil {
		err = p.removeStrangers(listed)
	}
	if err != nil {
		return err
	}
	if _, err := p.follow(informer.Informer()); err != nil { //nolint:contextcheck // pods outlive their events
		return fmt.Errorf("watching the pods of the node: %w", err)
	}
	h.keepNode(ctx)
	logger.Info("Stopping the pods", "grace", h.options.ShutdownGrace)
	p.close(h.options.ShutdownGrace)
	return nil
}

// dropManagedFields leaves out what is a third of a pod. An update without them keeps the API server's.
func dropManagedFields(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return object, nil
}

// keepNode keeps the Node until the context ends. It may be waiting for an API server that does not answer then.
func (h *host) keepNode(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runNode(ctx, h.client, newNode(h.options, h.claim.Host, address.Port), h.options.Ready)
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(nodeTimeout):
	}
}
