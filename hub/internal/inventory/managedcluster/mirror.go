package managedcluster

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// autoAcceptedAnnotation tells Open Cluster Management's registration controller that the time to accept a
	// ManagedCluster by itself is over, should its feature gate ManagedClusterAutoApproval be on.
	autoAcceptedAnnotation = "open-cluster-management.io/automatically-accepted-on"
	// Claims that Open Cluster Management's own agents make.
	idClaim      = "id.k8s.io"
	versionClaim = "kubeversion.open-cluster-management.io"
)

// mirrorOf is the ManagedCluster that shows cluster: a changed copy of existing, or a new one.
func mirrorOf(cluster *v1alpha1.Cluster, existing *clusterv1.ManagedCluster, now time.Time) *clusterv1.ManagedCluster {
	wanted := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name}}
	if existing != nil {
		wanted = existing.DeepCopy()
		inventory.RecordOwnership(wanted)
	}
	inventory.CopyLabels(wanted, inventory.Labels(cluster.Labels))
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub)
	if wanted.Annotations[autoAcceptedAnnotation] == "" {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, autoAcceptedAnnotation, cluster.CreationTimestamp.UTC().Format(time.RFC3339))
	}

	available := inventory.Available(cluster)
	available.Type = clusterv1.ManagedClusterConditionAvailable
	joined := inventory.Said(cluster, v1alpha1.ClusterJoinedCondition)
	joined.Type = clusterv1.ManagedClusterConditionJoined
	wanted.Spec.Taints = wantedTaints(wanted.Spec.Taints, available.Status, cluster.Accepted())

	status := &wanted.Status
	conditions.Set(&status.Conditions, joined, now)
	conditions.Set(&status.Conditions, available, now)
	status.Version.Kubernetes = cluster.Status.KubernetesVersion
	status.Capacity = resourcesOf(cluster)
	// The hub is not told what of it the nodes keep for themselves.
	status.Allocatable = resourcesOf(cluster)
	status.ClusterClaims = setClaim(status.ClusterClaims, idClaim, cluster.Status.ClusterUID)
	status.ClusterClaims = setClaim(status.ClusterClaims, versionClaim, cluster.Status.KubernetesVersion)
	return wanted
}

func resourcesOf(cluster *v1alpha1.Cluster) clusterv1.ResourceList {
	if len(cluster.Status.Capacity) == 0 {
		return nil
	}
	list := clusterv1.ResourceList{}
	for name, quantity := range cluster.Status.Capacity {
		list[clusterv1.ResourceName(name)] = quantity
	}
	return list
}

// setClaim sets one claim, or takes it away if there is no value, and leaves the others.
func setClaim(claims []clusterv1.ManagedClusterClaim, name, value string) []clusterv1.ManagedClusterClaim {
	at := slices.IndexFunc(claims, func(has clusterv1.ManagedClusterClaim) bool { return has.Name == name })
	switch {
	case at < 0 && value != "":
		return append(claims, clusterv1.ManagedClusterClaim{Name: name, Value: value})
	case at >= 0 && value == "":
		return slices.Delete(claims, at, at+1)
	case at >= 0:
		claims[at].Value = value
	}
	return claims
}

// taintKeys are the keys of the taints that the hub sets, in their order.
var taintKeys = []string{clusterv1.ManagedClusterTaintUnavailable, clusterv1.ManagedClusterTaintUnreachable, v1alpha1.NotAcceptedTaint}

// wantedTaints are those of current that are none of the hub's business, and those that follow from the cluster's state.
// The first two are just what Open Cluster Management's own taint controller makes of the same condition, so that
// the two agree when both run. The time of a new taint is left to its webhook, which refuses any other.
func wantedTaints(current []clusterv1.Taint, available metav1.ConditionStatus, accepted bool) []clusterv1.Taint {
	wanted := map[string]bool{
		clusterv1.ManagedClusterTaintUnavailable: available == metav1.ConditionFalse,
		clusterv1.ManagedClusterTaintUnreachable: available == metav1.ConditionUnknown,
		v1alpha1.NotAcceptedTaint:                !accepted,
	}
	var result []clusterv1.Taint
	for _, taint := range current {
		if !slices.Contains(taintKeys, taint.Key) || taint.Value != "" || taint.Effect != clusterv1.TaintEffectNoSelect {
			result = append(result, taint)
			continue
		}
		if wanted[taint.Key] {
			result = append(result, taint)
			wanted[taint.Key] = false
		}
	}
	for _, key := range taintKeys {
		if wanted[key] {
			result = append(result, clusterv1.Taint{Key: key, Effect: clusterv1.TaintEffectNoSelect})
		}
	}
	return result
}

// onlyResources reports whether two states of a mirror differ in nothing but sums over its nodes.
func onlyResources(before, after *clusterv1.ManagedClusterStatus) bool {
	changed := before.DeepCopy()
	changed.Capacity, changed.Allocatable = after.Capacity, after.Allocatable
	return equality.Semantic.DeepEqual(changed, after)
}

// releasedMirror is a mirror that Open Cluster Management has accepted: from then on it is no mirror but a cluster that
// has, or is to get, an agent of its own. What is left on it is for that side to change.
func releasedMirror(existing *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
	wanted := existing.DeepCopy()
	delete(wanted.Labels, v1alpha1.ManagedByLabel)
	delete(wanted.Annotations, v1alpha1.CopiedLabelsAnnotation)
	delete(wanted.Annotations, v1alpha1.PictureUIDAnnotation)
	wanted.Spec.Taints = slices.DeleteFunc(wanted.Spec.Taints, func(taint clusterv1.Taint) bool {
		return taint.Key == v1alpha1.NotAcceptedTaint
	})
	return wanted
}
