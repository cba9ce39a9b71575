package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// Direct is a client without a cache and with connections of its own, for probes and reports: neither waits for
// what else the agent does, nor for a connection that hangs. What it writes does not pass the freeze gate: see Ungated.
type Direct struct {
	// Reader reads, and nothing else.
	Reader client.Reader
	inner  client.Client
	http   *http.Client
}

// NewDirect returns a Direct for config.
func NewDirect(config *rest.Config) (*Direct, error) {
	own := rest.CopyConfig(config)
	own.QPS, own.Burst = reportQPS, reportBurst
	own.Wrap(newImpatient)
	// A dialer of its own keeps this client out of the cache of shared transports. A rotating configuration has
	// connections of its own already.
	own.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client: %w", err)
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	direct, err := client.New(own, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: Mapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Direct{Reader: undecodable.Reader(direct), inner: direct, http: httpClient}, nil
}

// impatient hides from client-go when an answer asks to come again. Else client-go would wait and try again by itself,
// for as long as the request's context lasts, and the caller would learn of a timeout only. A caller of a Direct comes
// again at its own pace.
type impatient struct{ inner http.RoundTripper }

func newImpatient(inner http.RoundTripper) http.RoundTripper { return impatient{inner} }

// RoundTrip implements http.RoundTripper.
func (t impatient) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.inner.RoundTrip(request)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// WrappedRoundTripper lets Reconnect find the connections.
func (t impatient) WrappedRoundTripper() http.RoundTripper { return t.inner }

// Reconnect drops idle connections, so that the next request does not use one that may hang.
// The client's own method would not get through client-go's wrappers of the transport.
func (d *Direct) Reconnect() { utilnet.CloseIdleConnectionsFor(d.http.Transport) }

// ErrGated refuses a write that has to pass the freeze gate.
var ErrGated = errors.New("write is not on the list of writes allowed while frozen")

// Allowance is what has to be written also while the agent is frozen.
type Allowance []write

// write is one kind of write to one object.
type write struct {
	how  string
	kind schema.GroupKind
	key  client.ObjectKey
}

// Reports allows to hold the Lease of a cluster and to tell how its agent is.
func Reports(cluster string) Allowance {
	lease := coordinationv1.SchemeGroupVersion.WithKind("Lease").GroupKind()
	key := client.ObjectKey{Namespace: cluster, Name: v1alpha1.AgentLeaseName}
	return Allowance{
		{"create", lease, key}, {"update", lease, key},
		{"apply status", v1alpha1.GroupVersion.WithKind("Cluster").GroupKind(), client.ObjectKey{Name: cluster}},
	}
}

// Credentials allows to ask the hub for a credential of a cluster's agent.
func Credentials(cluster string) Allowance {
	request := certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest").GroupKind()
	key := client.ObjectKey{Name: v1alpha1.AgentRequestPrefix + cluster}
	return Allowance{
		{"create", request, key}, {"delete", request, key},
		{"create token", corev1.SchemeGroupVersion.WithKind("ServiceAccount").GroupKind(), client.ObjectKey{Namespace: cluster, Name: v1alpha1.AgentServiceAccount}},
	}
}

// Identity allows to ask an API server who the agent is there, which is no change.
func Identity() Allowance {
	return Allowance{{"create", authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview").GroupKind(), client.ObjectKey{}}}
}

// Keeping allows to write the one object, such as a Secret, in which the agent keeps what is its own.
func Keeping(kind string, key client.ObjectKey) Allowance {
	object := corev1.SchemeGroupVersion.WithKind(kind).GroupKind()
	return Allowance{{"create", object, key}, {"update", object, key}}
}

// Ungated returns a client that reads, and whose writes do not pass the freeze gate: so it writes only what may allows.
func (d *Direct) Ungated(may Allowance) client.Client {
	return &ungated{Reader: d.Reader, inner: d.inner, may: may}
}

// ungated embeds no client: a new way to write would not compile before it is refused here.
type ungated struct {
	client.Reader
	inner client.Client
	may   Allowance
}

// checkWrite returns nil if object may be written so.
func (u *ungated) checkWrite(how string, object client.Object) error {
	kind, err := u.inner.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(object)
	for _, allowed := range u.may {
		if allowed == (write{how, kind.GroupKind(), key}) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s %s %s", ErrGated, how, kind.Kind, key)
}

func (u *ungated) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := u.checkWrite("create", object); err != nil {
		return err
	}
	return u.inner.Create(ctx, object, options...)
}

func (u *ungated) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := u.checkWrite("update", object); err != nil {
		return err
	}
	return u.inner.Update(ctx, object, options...)
}

func (u *ungated) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if err := u.checkWrite("delete", object); err != nil {
		return err
	}
	return u.inner.Delete(ctx, object, options...)
}

func (u *ungated) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return ErrGated
}

func (u *ungated) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return ErrGated
}

func (u *ungated) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return ErrGated
}

func (u *ungated) Status() client.SubResourceWriter { return u.SubResource("status") }

func (u *ungated) SubResource(name string) client.SubResourceClient {
	inner := u.inner.SubResource(name)
	return &ungatedSubResource{SubResourceReader: inner, inner: inner, name: name, of: u}
}

func (u *ungated) Scheme() *runtime.Scheme     { return u.inner.Scheme() }
func (u *ungated) RESTMapper() meta.RESTMapper { return u.inner.RESTMapper() }

func (u *ungated) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return u.inner.GroupVersionKindFor(object)
}

func (u *ungated) IsObjectNamespaced(object runtime.Object) (bool, error) {
	return u.inner.IsObjectNamespaced(object)
}

type ungatedSubResource struct {
	client.SubResourceReader
	inner client.SubResourceWriter
	name  string
	of    *ungated
}

func (s *ungatedSubResource) Create(ctx context.Context, object, body client.Object, options ...client.SubResourceCreateOption) error {
	if err := s.of.checkWrite("create "+s.name, object); err != nil {
		return err
	}
	return s.inner.Create(ctx, object, body, options...)
}

func (s *ungatedSubResource) Apply(ctx context.Context, content runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	object, ok := content.(client.Object)
	if !ok {
		return ErrGated
	}
	if err := s.of.checkWrite("apply "+s.name, object); err != nil {
		return err
	}
	return s.inner.Apply(ctx, content, options...)
}

func (s *ungatedSubResource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return ErrGated
}

func (s *ungatedSubResource) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return ErrGated
}
