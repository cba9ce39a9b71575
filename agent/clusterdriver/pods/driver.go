// Package pods runs simulated clusters as pods of the Kubernetes cluster that hosts them. Package rendering says which objects that takes.
//
// All of a cluster is in a namespace of its own, which is the record of it: the driver creates the namespace first and deletes it last, and
// what is not there does not exist. It changes only what it has made, which it knows by the UID of the SimulatedCluster. Its rights in a
// namespace come from a RoleBinding there: see config/rbac/agent-simulated-clusters.
package pods

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/config"
)

// fieldManager owns what the driver writes.
const fieldManager = "hollowfleet-simulated-clusters"

// Options of a Driver. Config, Gate, Settings.Host, AgentNamespace and the images are required.
type Options struct {
	// Config is for the cluster that hosts the pods.
	Config *rest.Config
	// Gate is the freeze gate, which all requests there pass.
	Gate func(http.RoundTripper) http.RoundTripper
	// Settings are those of all simulated clusters. Manifests are filled in.
	rendering.Settings
	// Certificates say who makes those of new clusters. Default: PKIAuto.
	Certificates PKIChoice
	// MaxClusters is how many there may be. 0: none.
	MaxClusters int
	// Dial connects to an API server of a simulated cluster. Default: as the network does.
	Dial  func(ctx context.Context, network, address string) (net.Conn, error)
	Clock clock.PassiveClock
}

// PKIChoice says who is to make the certificates of new clusters.
type PKIChoice string

// Who makes certificates.
const (
	// PKIAuto is cert-manager where it is installed, and else the driver.
	PKIAuto        PKIChoice = "auto"
	PKICertManager PKIChoice = "cert-manager"
	PKISelfSigned  PKIChoice = "self-signed"
)

// Driver is a clusterdriver.Driver. Repair keeps what it has made.
type Driver struct {
	Options
	client    client.Client
	discovery discovery.DiscoveryInterface

	// creating is held while the clusters are counted and one is added.
	creating sync.Mutex
	// turns let one call at a time change a cluster.
	turns keyedMutex

	mu sync.Mutex
	// ensured is what was asked for last in this process, without credentials, by UID; removing are those that are to be removed. proofs are
	// how API servers are asked, and judged what was known of certificates.
	ensured  map[string]clusterdriver.Desired
	removing map[string]bool
	proofs   map[string]*proof
	judged   map[string]judgement
	// requestedAt is when a repair was requested last.
	requestedAt time.Time
	requests    chan struct{}
}

// checkOptions reports what is missing.
func (o Options) checkOptions() error {
	if o.Config == nil || o.Gate == nil || o.Host == "" || o.AgentNamespace == "" || o.AgentAccount == "" ||
		o.SimclusterImage == "" || o.AgentImage == "" || o.HollowNodeImage == "" || o.Clock == nil {
		return errors.New("simulated clusters as pods need a cluster for them, the freeze gate, its Cluster, the namespace and ServiceAccount of its agent, three images and a clock")
	}
	return nil
}

// New returns a Driver. It does not connect yet.
func New(options Options) (*Driver, error) {
	if err := options.checkOptions(); err != nil {
		return nil, err
	}
	if options.Certificates == "" {
		options.Certificates = PKIAuto
	}
	if options.Dial == nil {
		options.Dial = (&net.Dialer{}).DialContext
	}
	var err error
	if options.Manifests, err = readManifests(); err != nil {
		return nil, err
	}
	d := &Driver{
		Options: options, turns: keyedMutex{held: map[string]*sync.Mutex{}},
		ensured: map[string]clusterdriver.Desired{}, removing: map[string]bool{}, proofs: map[string]*proof{}, judged: map[string]judgement{},
		requests: make(chan struct{}, 1),
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if d.client, err = clients.NewGatedClient(options.Config, options.Gate, scheme, newMapper()); err != nil {
		return nil, fmt.Errorf("making a client for simulated clusters: %w", err)
	}
	if d.discovery, err = discovery.NewDiscoveryClientForConfig(clients.Gated(options.Config, options.Gate)); err != nil {
		return nil, fmt.Errorf("making a client for simulated clusters: %w", err)
	}
	return d, nil
}

// readManifests reads what an agent needs in its simulated cluster, with the rights for load tests.
func readManifests() (map[string]string, error) {
	manifests := map[string]string{}
	for _, file := range []struct{ name, path string }{
		{"00-namespace.yaml", "rbac/agent-workload/00-namespace.yaml"},
		{"10-agent.yaml", "rbac/agent-workload/10-agent.yaml"},
		{"20-hollow-node-bootstrap.yaml", "rbac/agent-workload/20-hollow-node-bootstrap.yaml"},
		{"load-tests.yaml", "rbac/agent-load-tests/role.yaml"},
	} {
		content, err := config.RBAC.ReadFile(file.path)
		if err != nil {
			return nil, fmt.Errorf("reading what agents of simulated clusters need: %w", err)
		}
		manifests[file.name] = string(content)
	}
	return manifests, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.SchemeBuilder{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme, certmanagerv1.AddToScheme,
	}
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("collecting the kinds of simulated clusters: %w", err)
	}
	return scheme, nil
}

// newMapper knows the resources of what the driver makes, so that it need not discover them.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	for _, kind := range []string{"Pod", "Secret", "ConfigMap", "Service", "ServiceAccount", "ResourceQuota", "PersistentVolumeClaim"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), meta.RESTScopeNamespace)
	mapper.Add(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), meta.RESTScopeNamespace)
	mapper.Add(certmanagerv1.SchemeGroupVersion.WithKind(certmanagerv1.IssuerKind), meta.RESTScopeNamespace)
	mapper.Add(certmanagerv1.SchemeGroupVersion.WithKind(certmanagerv1.CertificateKind), meta.RESTScopeNamespace)
	return mapper
}

// keyedMutex is a mutex for each name.
type keyedMutex struct {
	mu   sync.Mutex
	held map[string]*sync.Mutex
}

// lockName waits until no other call holds the name, and returns what gives it free.
func (k *keyedMutex) lockName(name string) (unlock func()) {
	k.mu.Lock()
	one := k.held[name]
	if one == nil {
		one = &sync.Mutex{}
		k.held[name] = one
	}
	k.mu.Unlock()
	one.Lock()
	return one.Unlock
}

func refuseCluster(refusal clusterdriver.Refusal, format string, arguments ...any) error {
	return &clusterdriver.RefusedError{Refusal: refusal, Problem: fmt.Sprintf(format, arguments...)}
}
