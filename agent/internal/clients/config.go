// Package clients makes the agent's ways into its API servers. It is the only place where clients are made, so
// that none of them goes past the freeze gate; a test of package agent holds that.
package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Requests per second and burst of the agent's clients, for each kind of object. The Lease has its own, so that a thousand machines that
// change at once cannot keep it waiting. A Machine that joins takes three requests to the hub, and four for each of its Node, its Pod and
// its Secret: at this rate a cluster can get 30 Machines a second.
const (
	hubQPS, hubBurst       = 100, 200
	targetQPS, targetBurst = 200, 400
	reportQPS, reportBurst = 5, 10
	dialTimeout            = 5 * time.Second
)

// LoadConfig reads the kubeconfig of a target or a host; an empty path means the cluster that the agent runs in.
func LoadConfig(path, userAgent string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if path == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("no kubeconfig given, and this is not a pod: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		return nil, fmt.Errorf("loading kubeconfig %q: %w", path, err)
	}
	config.UserAgent = userAgent
	config.QPS, config.Burst = targetQPS, targetBurst
	return config, nil
}

// CertificateAuthority returns the PEM of the CA that config trusts, nil for the system's.
func CertificateAuthority(config *rest.Config) ([]byte, error) {
	loaded := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(loaded); err != nil {
		return nil, fmt.Errorf("loading the certificates of a kubeconfig: %w", err)
	}
	return loaded.CAData, nil
}

// Scheme holds the kinds that the agent works with, and no others: each costs memory.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.SchemeBuilder{
		corev1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme,
		authenticationv1.AddToScheme, eventsv1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme,
	}
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, nil
}

// Mapper knows the resources of those kinds, so that the agent need not discover them at every start.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	add := func(version schema.GroupVersion, scope meta.RESTScope, kinds ...string) {
		for _, kind := range kinds {
			mapper.Add(version.WithKind(kind), scope)
			// Only for its scope, of which a cache asks before it lists.
			mapper.Add(version.WithKind(kind+"List"), scope)
		}
	}
	add(corev1.SchemeGroupVersion, meta.RESTScopeRoot, "Node", "Namespace", "PersistentVolume")
	add(corev1.SchemeGroupVersion, meta.RESTScopeNamespace, "Pod", "Secret", "ConfigMap", "ServiceAccount", "ResourceQuota", "PersistentVolumeClaim")
	add(authenticationv1.SchemeGroupVersion, meta.RESTScopeRoot, "SelfSubjectReview")
	add(certificatesv1.SchemeGroupVersion, meta.RESTScopeRoot, "CertificateSigningRequest")
	add(coordinationv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Lease")
	add(eventsv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Event")
	add(storagev1.SchemeGroupVersion, meta.RESTScopeRoot, "StorageClass", "CSIDriver", "CSINode")
	add(v1alpha1.GroupVersion, meta.RESTScopeRoot, "Cluster")
	add(v1alpha1.GroupVersion, meta.RESTScopeNamespace, "Machine", "MachineClass", "NodeDisruptionRun", "LoadTestRun", "SimulatedCluster", "MachineLogRequest")
	return mapper
}

// libraryQPS and libraryBurst leave room for many drains at a time; each does little at a time.
const libraryQPS, libraryBurst = 200, 400

// Gated returns config for clients each of whose attempts passes gate, those that client-go repeats by itself too.
func Gated(config *rest.Config, gate func(http.RoundTripper) http.RoundTripper) *rest.Config {
	gated := rest.CopyConfig(config)
	gated.Wrap(gate)
	return gated
}

// NewMetadata returns a client of the metadata of objects, which uses the connections of httpClient.
func NewMetadata(config *rest.Config, httpClient *http.Client) (metadata.Interface, error) {
	made, err := metadata.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	return made, nil
}

// NewGatedClient returns a client without a cache for kinds that the agent has no other client for. Its requests pass gate.
func NewGatedClient(config *rest.Config, gate func(http.RoundTripper) http.RoundTripper, scheme *runtime.Scheme, mapper meta.RESTMapper) (client.Client, error) {
	if gate == nil {
		return nil, errors.New("a client needs the freeze gate")
	}
	made, err := client.New(Gated(config, gate), client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return made, nil
}

// NewGatedClientset returns a clientset for a library that wants one. Its requests pass gate.
func NewGatedClientset(config *rest.Config, gate func(http.RoundTripper) http.RoundTripper) (kubernetes.Interface, error) {
	if gate == nil {
		return nil, errors.New("a clientset needs the freeze gate")
	}
	gated := Gated(config, gate)
	gated.QPS, gated.Burst = libraryQPS, libraryBurst
	clientset, err := kubernetes.NewForConfig(gated)
	if err != nil {
		return nil, fmt.Errorf("making a clientset: %w", err)
	}
	return clientset, nil
}

// NewCacheUntil makes the caches of a manager that is told to stop when ctx ends, maybe before they are filled, such as while
// an API server is away.
//
// A manager of controller-runtime v0.25 waits in a busy loop until each of its caches says that it is filled, also
// when its own context has ended (pull request 3440 there tells of it). So these end the wait with ctx. What the
// manager starts then still cannot read from a cache that is not filled, and is stopped at once.
func NewCacheUntil(ctx context.Context) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		made, err := cache.New(config, options)
		if err != nil {
			return nil, err
		}
		return until{Cache: made, end: ctx.Done()}, nil
	}
}

type until struct {
	cache.Cache
	end <-chan struct{}
}

// WaitForCacheSync implements cache.Cache. It returns true also when the manager is to stop.
func (c until) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return c.Cache.WaitForCacheSync(ctx) || c.hasEnded()
}

func (c until) hasEnded() bool {
	select {
	case <-c.end:
		return true
	default:
		return false
	}
}
