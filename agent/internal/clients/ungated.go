package clients

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

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
