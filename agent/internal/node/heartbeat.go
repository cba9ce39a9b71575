package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OnlyHeartbeat tells whether two versions of a Node differ in nothing but the times of its heartbeats, and in
// what the API server keeps count of.
func OnlyHeartbeat(before, after *corev1.Node) bool {
	if before.UID != after.UID || len(before.Status.Conditions) != len(after.Status.Conditions) {
		return false
	}
	if !equality.Semantic.DeepEqual(still(before.ObjectMeta), still(after.ObjectMeta)) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return false
	}
	a, b := before.Status, after.Status
	for i := range a.Conditions {
		x, y := a.Conditions[i], b.Conditions[i]
		x.LastHeartbeatTime, y.LastHeartbeatTime = metav1.Time{}, metav1.Time{}
		if x != y {
			return false
		}
	}
	a.Conditions, b.Conditions = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// still is metadata without what every write changes.
func still(metadata metav1.ObjectMeta) metav1.ObjectMeta {
	metadata.ResourceVersion, metadata.ManagedFields, metadata.Generation = "", nil, 0
	return metadata
}
