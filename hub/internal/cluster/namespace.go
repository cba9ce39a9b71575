package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// namespaceState is what was found of a cluster's namespace.
type namespaceState int

const (
	namespaceUnknown  namespaceState = iota // It could not be read or made.
	namespaceNone                           // There is none, and none is to be.
	namespaceReady                          // It is the hub's.
	namespaceForeign                        // Another client made it.
	namespaceDeleting                       // It is being deleted.
)

// ensureNamespace makes the namespace of an accepted cluster. It never takes over one that the hub did not make.
func (c *Controller) ensureNamespace(ctx context.Context, cluster *v1alpha1.Cluster) (namespaceState, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := c.Client.Get(ctx, client.ObjectKey{Name: cluster.Name}, namespace)
	switch {
	case apierrors.IsNotFound(err) && cluster.Accepted():
		return c.createNamespace(ctx, cluster)
	case apierrors.IsNotFound(err):
		return namespaceNone, nil
	case err != nil:
		return namespaceUnknown, fmt.Errorf("getting namespace %s: %w", cluster.Name, err)
	case !labeled(namespace, cluster.Name):
		return namespaceForeign, nil
	case namespace.DeletionTimestamp != nil:
		return namespaceDeleting, nil
	}
	return namespaceReady, nil
}

func (c *Controller) createNamespace(ctx context.Context, cluster *v1alpha1.Cluster) (namespaceState, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name, Labels: labelsOf(cluster.Name)}}
	if err := c.Client.Create(ctx, namespace); apierrors.IsAlreadyExists(err) {
		return namespaceUnknown, nil // The cache will show whose it is, and wake us.
	} else if err != nil {
		return namespaceUnknown, fmt.Errorf("creating namespace %s: %w", cluster.Name, err)
	}
	namespaceCreatedEvent(cluster.Name).Send(c.Recorder, cluster)
	return namespaceReady, nil
}
