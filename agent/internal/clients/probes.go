package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// versionAge is how long a known version of the target is believed.
const versionAge = 10 * time.Minute

// ClusterCache has the agent's Cluster as it was seen last: a HubProbe.
type ClusterCache interface {
	// Cluster returns it, nil if it was never seen.
	Cluster() *v1alpha1.Cluster
	// Seen takes in a newer one.
	Seen(*v1alpha1.Cluster)
}

// HubProbe reads the agent's own Cluster, which also tells how the agent is to behave. On a hub that does not
// have it the probe fails: a hub that was restored empty is no healthy one.
type HubProbe struct {
	direct *Direct
	name   string

	mu      sync.Mutex
	cluster *v1alpha1.Cluster
}

// NewHubProbe returns a probe of the hub for the agent of a cluster.
func NewHubProbe(direct *Direct, cluster string) *HubProbe {
	return &HubProbe{direct: direct, name: cluster}
}

// Probe implements freeze.Probe.
func (p *HubProbe) Probe(ctx context.Context) error {
	cluster := &v1alpha1.Cluster{}
	if err := p.direct.Reader.Get(ctx, client.ObjectKey{Name: p.name}, cluster); err != nil {
		p.direct.Reconnect()
		return fmt.Errorf("getting Cluster %s: %w", p.name, Diagnose(err))
	}
	p.Seen(cluster)
	return nil
}

// Seen takes in a newer Cluster, such as the answer to a write. One that cannot be decoded has no status, and so not even the
// namespace of its Machines: what was seen before it holds on, and the probe fails.
func (p *HubProbe) Seen(cluster *v1alpha1.Cluster) {
	if cluster.NotDecoded() != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cluster = cluster
}

// Ordered reports whether a person has frozen the Cluster, and the reason given.
func (p *HubProbe) Ordered() (reason string, ordered bool) {
	cluster := p.Cluster()
	if cluster == nil {
		return "", false
	}
	reason, ordered = cluster.Annotations[v1alpha1.FreezeAnnotation]
	if ordered && reason == "" {
		reason = "no reason given"
	}
	return reason, ordered
}

// Cluster returns the Cluster as it was seen last, nil before the first time. It is not to be changed.
func (p *HubProbe) Cluster() *v1alpha1.Cluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cluster
}

// identity is the UID of a cluster's kube-system namespace, as a probe saw it first.
type identity struct {
	// of says which cluster that is, for messages.
	of     string
	direct *Direct

	mu  sync.Mutex
	uid string
}

// checkIdentity reads the identity, and fails if another cluster answers than before: what was decided for the one must not be done
// to the other. The agent is not made for that: started again it takes the cluster that answers then.
func (i *identity) checkIdentity(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	if err := i.direct.Reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		i.direct.Reconnect()
		return fmt.Errorf("getting namespace %s: %w", metav1.NamespaceSystem, Diagnose(err))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.uid == "" {
		i.uid = string(namespace.UID)
	}
	if i.uid != string(namespace.UID) {
		i.direct.Reconnect()
		return fmt.Errorf("the %s is another cluster: the UID of its namespace %s is %s and was %s: check the address in the kubeconfig, or restart the agent if this is intended",
			i.of, metav1.NamespaceSystem, namespace.UID, i.uid)
	}
	return nil
}

func (i *identity) knownIdentity() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.uid
}

// TargetProbe reads the kube-system namespace, whose UID is the cluster's identity, and now and then the version.
type TargetProbe struct {
	identity   identity
	versionURL string
	clock      clock.PassiveClock

	mu        sync.Mutex
	version   string
	versionAt time.Time
}

// NewTargetProbe returns a probe of the target.
func NewTargetProbe(direct *Direct, config *rest.Config, clock clock.PassiveClock) (*TargetProbe, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the target's URL: %w", err)
	}
	return &TargetProbe{identity: identity{of: "target", direct: direct}, versionURL: base.JoinPath("version").String(), clock: clock}, nil
}

// Probe implements freeze.Probe.
func (p *TargetProbe) Probe(ctx context.Context) error {
	if err := p.identity.checkIdentity(ctx); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.versionAt = time.Time{} // It may come back with another one.
		return err
	}
	p.mu.Lock()
	fresh := p.version != "" && p.clock.Since(p.versionAt) < versionAge
	p.mu.Unlock()
	if fresh {
		return nil
	}
	known, err := p.readVersion(ctx)
	if err != nil {
		p.identity.direct.Reconnect()
		return fmt.Errorf("getting the target's version: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version, p.versionAt = known, p.clock.Now()
	return nil
}

func (p *TargetProbe) readVersion(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.versionURL, nil)
	if err != nil {
		return "", err
	}
	response, err := p.identity.direct.http.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", apierrors.NewGenericServerResponse(response.StatusCode, "get", schema.GroupResource{}, "version", response.Status, 0, true)
	}
	var info version.Info
	if err := json.NewDecoder(response.Body).Decode(&info); err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	return effectiveVersion(info), nil
}

// effectiveVersion is the version as which an API server works: the minor that it emulates, if that is another than that of its code.
func effectiveVersion(info version.Info) string {
	if info.EmulationMinor == "" || strings.TrimRight(info.Minor, "+") == info.EmulationMinor {
		return info.GitVersion
	}
	return fmt.Sprintf("v%s.%s.0", info.EmulationMajor, info.EmulationMinor)
}

// Identity returns the UID and version of the target as they were seen last; empty before the first time.
func (p *TargetProbe) Identity() (uid, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.identity.knownIdentity(), p.version
}

// HostProbe returns a probe that lists at most one pod of namespace, and makes sure that the host is still the same cluster.
// An agent that may not read the host's kube-system namespace does without.
func HostProbe(direct *Direct, namespace string) func(context.Context) error {
	host := &identity{of: "host", direct: direct}
	return func(ctx context.Context) error {
		if err := host.checkIdentity(ctx); err != nil && (!apierrors.IsForbidden(err) || host.knownIdentity() != "") {
			return err
		}
		if err := direct.Reader.List(ctx, &corev1.PodList{}, client.InNamespace(namespace), client.Limit(1)); err != nil {
			direct.Reconnect()
			return fmt.Errorf("listing pods in namespace %s: %w", namespace, err)
		}
		return nil
	}
}
