package managedcluster

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// observed is what there is of one name. Cluster and managed are nil where there is none.
type observed struct {
	cluster *v1alpha1.Cluster
	managed *clusterv1.ManagedCluster
	now     time.Time
}

// plan is what to make of it. What is nil stays as it is.
type plan struct {
	// cluster and managed are the objects as they should be.
	cluster *v1alpha1.Cluster
	managed *clusterv1.ManagedCluster
	// remove deletes the mirror.
	remove bool
	// standing is what a person should know of the state, for as long as it lasts.
	standing *reconciler.Event
}

// decide is the whole policy: a Cluster is mirrored unless it came from a ManagedCluster itself; a ManagedCluster
// that the hub did not make is never written; a Cluster is never deleted.
func decide(in observed) plan {
	hasCluster := in.cluster != nil && in.cluster.DeletionTimestamp == nil
	ours := in.managed != nil && inventory.IsOwn(in.managed, hasCluster)
	switch {
	case ours && in.managed.DeletionTimestamp != nil:
		return plan{} // A finalizer holds it; it is recreated once it is gone.
	case ours && in.managed.Spec.HubAcceptsClient:
		event := releasedEvent(in.managed.Name)
		return plan{managed: releasedMirror(in.managed), standing: &event}
	case in.cluster == nil && isImportable(in.managed):
		return plan{cluster: importedCluster(in.managed, nil)}
	case in.cluster == nil || in.cluster.DeletionTimestamp != nil:
		return plan{remove: ours}
	case !isMirrored(in.cluster):
		return followManagedCluster(in, ours)
	case in.managed == nil || ours:
		return plan{managed: mirrorOf(in.cluster, in.managed, in.now), cluster: mirroredAsUsual(in)}
	}
	event := conflictEvent(in.managed.Name, in.managed.Labels[v1alpha1.ImportLabel] == "true")
	return plan{cluster: withEvent(in, event), standing: &event}
}

// followManagedCluster keeps a Cluster that came from a ManagedCluster like it. What goes away there is no order here.
func followManagedCluster(in observed, ours bool) plan {
	next := plan{remove: ours, cluster: mirroredAsUsual(in)}
	var event reconciler.Event
	switch {
	case in.managed == nil || ours || in.managed.DeletionTimestamp != nil:
		event = originGoneEvent(in.cluster.Name)
	case in.managed.Labels[v1alpha1.ImportLabel] != "true":
		event = importEndedEvent(in.cluster.Name)
	default:
		next.cluster = importedCluster(in.managed, next.cluster)
		return next
	}
	next.standing = &event
	return next
}

// isImportable reports whether managed, which may be nil, is to become a Cluster: the user asks for it, and Open
// Cluster Management has accepted it.
func isImportable(managed *clusterv1.ManagedCluster) bool {
	return managed != nil && managed.DeletionTimestamp == nil &&
		managed.Labels[v1alpha1.ImportLabel] == "true" && managed.Spec.HubAcceptsClient &&
		meta.IsStatusConditionTrue(managed.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
}

// importedCluster is the Cluster that managed becomes: a changed copy of existing, or a new one. Whether it may join is
// for a person to say here too.
func importedCluster(managed *clusterv1.ManagedCluster, existing *v1alpha1.Cluster) *v1alpha1.Cluster {
	wanted := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Name:        managed.Name,
			Labels:      map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByHub},
			Annotations: map[string]string{v1alpha1.ImportedFromAnnotation: originOf(managed.Name)},
		},
		Spec: v1alpha1.ClusterSpec{Acceptance: v1alpha1.AcceptancePending, AcceptancePolicy: v1alpha1.AcceptanceManual},
	}
	if existing != nil {
		wanted = existing.DeepCopy()
	}
	inventory.CopyLabels(wanted, inventory.Labels(managed.Labels))
	return wanted
}

// mirroredAsUsual is the Cluster without a condition that says why it has no mirror.
func mirroredAsUsual(in observed) *v1alpha1.Cluster {
	wanted := in.cluster.DeepCopy()
	meta.RemoveStatusCondition(&wanted.Status.Conditions, v1alpha1.ClusterMirroredCondition)
	return wanted
}

// withEvent is the Cluster with the condition that repeats an event: why its mirror is not there, or not up to date. There may
// be no Cluster.
func withEvent(in observed, event reconciler.Event) *v1alpha1.Cluster {
	if in.cluster == nil {
		return nil
	}
	wanted := in.cluster.DeepCopy()
	conditions.Set(&wanted.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ClusterMirroredCondition, Status: metav1.ConditionFalse, ObservedGeneration: wanted.Generation,
		Reason: event.Reason, Message: event.Note,
	}, in.now)
	return wanted
}
