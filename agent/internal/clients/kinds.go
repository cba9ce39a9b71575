// Package clients makes the agent's ways into its API servers. It is the only place where clients are made, so
// that none of them goes past the freeze gate; a test of package agent holds that.
package clients

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Scheme holds the kinds that the agent works with, and no others: each costs memory.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.SchemeBuilder{
		corev1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme,
		authenticationv1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme,
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
	add(corev1.SchemeGroupVersion, meta.RESTScopeRoot, "Node", "Namespace")
	add(corev1.SchemeGroupVersion, meta.RESTScopeNamespace, "Pod", "Secret", "ConfigMap", "ServiceAccount")
	add(authenticationv1.SchemeGroupVersion, meta.RESTScopeRoot, "SelfSubjectReview")
	add(certificatesv1.SchemeGroupVersion, meta.RESTScopeRoot, "CertificateSigningRequest")
	add(coordinationv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Lease")
	add(eventsv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Event")
	add(v1alpha1.GroupVersion, meta.RESTScopeRoot, "Cluster")
	add(v1alpha1.GroupVersion, meta.RESTScopeNamespace, "Machine", "MachineClass")
	return mapper
}
