package hub

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cluster"
)

// cacheOptions keep the hub's memory to what its controllers read: only its own kinds whole, of the others
// the few objects that the hub or an agent made, and of nothing the managed fields.
func cacheOptions() cache.Options {
	made := labels.SelectorFromSet(labels.Set{v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub})
	named := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		// A kind that no controller watches is read live or not at all, never cached by accident.
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&coordinationv1.Lease{}:      named(v1alpha1.AgentLeaseName),
			&rbacv1.RoleBinding{}:        named(cluster.AgentRole),
			&corev1.ServiceAccount{}:     named(v1alpha1.AgentServiceAccount),
			&rbacv1.ClusterRole{}:        {Label: made},
			&rbacv1.ClusterRoleBinding{}: {Label: made},
			&certificatesv1.CertificateSigningRequest{}: {
				Field: fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientSignerName),
			},
		},
	}
}
