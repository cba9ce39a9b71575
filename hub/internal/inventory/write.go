package inventory

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// FieldManager owns what the hub writes.
const FieldManager = client.FieldOwner("hollowfleet-hub")

// Difference says which parts of an object are to be written, besides labels and annotations that differ.
type Difference struct {
	Spec, Status bool
}

// Put makes existing like wanted, a changed copy of it, and writes nothing that does not differ. Status goes first.
func Put(ctx context.Context, c client.Client, existing, wanted client.Object, differs Difference) error {
	before := existing.DeepCopyObject().(client.Object)
	if differs.Status {
		after := wanted.DeepCopyObject().(client.Object)
		if err := c.Status().Patch(ctx, after, reconciler.MergeFromWithLock(before), FieldManager); err != nil {
			return fmt.Errorf("writing status of %T %s: %w", wanted, wanted.GetName(), err)
		}
		before.SetResourceVersion(after.GetResourceVersion())
	}
	if !differs.Spec && maps.Equal(before.GetLabels(), wanted.GetLabels()) && maps.Equal(before.GetAnnotations(), wanted.GetAnnotations()) {
		return nil
	}
	after := wanted.DeepCopyObject().(client.Object)
	after.SetResourceVersion(before.GetResourceVersion())
	if err := c.Patch(ctx, after, reconciler.MergeFromWithLock(before), FieldManager); err != nil {
		return fmt.Errorf("writing %T %s: %w", wanted, wanted.GetName(), err)
	}
	return nil
}

// Remove deletes the picture of a Cluster. It is only a picture, so the absence of its Cluster is enough; but that
// is asked of the API server itself, since a cache may not know the Cluster yet. Wanted tells whether a Cluster
// that is there has a picture.
func Remove(ctx context.Context, c client.Client, picture client.Object, wanted func(*v1alpha1.Cluster) bool) error {
	cluster := &v1alpha1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Name: picture.GetName()}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting cluster %s: %w", picture.GetName(), err)
	}
	if err == nil && wanted(cluster) {
		return nil
	}
	uid, version := picture.GetUID(), picture.GetResourceVersion()
	if err := c.Delete(ctx, picture, unchanged(uid, version)); err != nil {
		return fmt.Errorf("deleting %T %s: %w", picture, picture.GetName(), err)
	}
	return nil
}

func unchanged(uid types.UID, version string) client.Preconditions {
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

// IgnoreGone drops the error of an object, or of a whole kind, that is gone or about to go.
func IgnoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	return err
}
