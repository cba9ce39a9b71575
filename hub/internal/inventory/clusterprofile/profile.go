package clusterprofile

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterprofilev1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// ManagerName is the hub's name in ClusterProfiles.
const ManagerName = "hollowfleet"

// Properties of a cluster. The first has the name that KEP-2149 gives it.
const (
	idProperty       = "cluster.clusterset.k8s.io"
	agentProperty    = "agent-version.hollowfleet.io"
	acceptedProperty = "accepted.hollowfleet.io"
	cpuProperty      = "capacity-cpu.hollowfleet.io"
	memoryProperty   = "capacity-memory.hollowfleet.io"
)

// joinedCondition has the name that Open Cluster Management gives it.
const joinedCondition = "Joined"

// newProfile is the ClusterProfile that shows cluster: a changed copy of existing, or a new one.
func newProfile(cluster *v1alpha1.Cluster, existing *clusterprofilev1alpha1.ClusterProfile, now time.Time) *clusterprofilev1alpha1.ClusterProfile {
	wanted := &clusterprofilev1alpha1.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.HubNamespace, Name: cluster.Name}}
	if existing != nil {
		wanted = existing.DeepCopy()
		inventory.RecordOwnership(wanted)
	}
	inventory.CopyLabels(wanted, inventory.Labels(cluster.Labels))
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub)
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, v1alpha1.ClusterNameLabel, cluster.Name)
	metav1.SetMetaDataLabel(&wanted.ObjectMeta, clusterprofilev1alpha1.LabelClusterManagerKey, ManagerName)
	wanted.Spec.DisplayName = cluster.Name
	wanted.Spec.ClusterManager.Name = ManagerName

	healthy := inventory.Available(cluster)
	healthy.Type = clusterprofilev1alpha1.ClusterConditionControlPlaneHealthy
	joined := inventory.Said(cluster, v1alpha1.ClusterJoinedCondition)
	joined.Type = joinedCondition
	status := &wanted.Status
	conditions.Set(&status.Conditions, healthy, now)
	conditions.Set(&status.Conditions, joined, now)
	status.Version.Kubernetes = cluster.Status.KubernetesVersion
	for _, has := range listProperties(cluster) {
		status.Properties = setProperty(status.Properties, has.Name, has.Value)
	}
	return wanted
}

// listProperties are what else the hub knows; one without a value is not known. None has the time of its observation,
// which would be a heartbeat.
func listProperties(cluster *v1alpha1.Cluster) []clusterprofilev1alpha1.Property {
	return []clusterprofilev1alpha1.Property{
		{Name: idProperty, Value: cluster.Status.ClusterUID},
		{Name: agentProperty, Value: cluster.Status.AgentVersion},
		{Name: acceptedProperty, Value: strconv.FormatBool(cluster.Accepted())},
		{Name: cpuProperty, Value: formatCapacity(cluster, corev1.ResourceCPU)},
		{Name: memoryProperty, Value: formatCapacity(cluster, corev1.ResourceMemory)},
	}
}

func formatCapacity(cluster *v1alpha1.Cluster, resource corev1.ResourceName) string {
	quantity, known := cluster.Status.Capacity[resource]
	if !known {
		return ""
	}
	return quantity.String()
}

// setProperty sets one property, or takes it away if there is no value, and leaves the others.
func setProperty(properties []clusterprofilev1alpha1.Property, name, value string) []clusterprofilev1alpha1.Property {
	at := slices.IndexFunc(properties, func(has clusterprofilev1alpha1.Property) bool { return has.Name == name })
	switch {
	case at < 0 && value != "":
		return append(properties, clusterprofilev1alpha1.Property{Name: name, Value: value})
	case at >= 0 && value == "":
		return slices.Delete(properties, at, at+1)
	case at >= 0:
		properties[at].Value = value
	}
	return properties
}

// onlyCapacity reports whether two states differ in nothing but sums over the cluster's nodes.
func onlyCapacity(before, after *clusterprofilev1alpha1.ClusterProfileStatus) bool {
	before, after = before.DeepCopy(), after.DeepCopy()
	for _, name := range []string{cpuProperty, memoryProperty} {
		before.Properties, after.Properties = setProperty(before.Properties, name, ""), setProperty(after.Properties, name, "")
	}
	return sameStatus(before, after)
}
