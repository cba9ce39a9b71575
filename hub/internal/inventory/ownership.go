package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// IsOwn reports whether the hub made picture, and not a user from an export of one. A picture without a record was made a moment ago, or
// by an earlier hub: it is the hub's for as long as its Cluster is there, and is not deleted without it.
func IsOwn(picture metav1.Object, hasCluster bool) bool {
	if picture.GetLabels()[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByHub {
		return false
	}
	recorded, has := picture.GetAnnotations()[v1alpha1.PictureUIDAnnotation]
	if !has {
		return hasCluster
	}
	return recorded == string(picture.GetUID())
}

// RecordOwnership binds a picture that was created to its own UID, which a copy cannot have.
func RecordOwnership(picture metav1.Object) {
	if picture.GetUID() == "" {
		return
	}
	annotations := ensureMap(picture.GetAnnotations())
	annotations[v1alpha1.PictureUIDAnnotation] = string(picture.GetUID())
	picture.SetAnnotations(annotations)
}
