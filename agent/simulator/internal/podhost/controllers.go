package podhost

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/kubelet/token"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/address"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/image"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/podlife"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/support"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost/volume"
)

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
		remover: &remover{client: h.client, lister: lister, statuses: statuses},
		pods:    make(map[types.UID]*podlife.Pod),
	}
	p.runtime = &podlife.Runtime{
		Images:        image.Set(h.options.Images),
		Host:          support.CurrentUser(),
		HollowNodesOf: h.options.HollowNodesOf,
		Launcher:      h.launcher,
		Packs:         h.newPacks(recorder),
		Addresses:     address.NewPool(h.claim.Prefix()),
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
