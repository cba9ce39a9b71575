package inventory

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Available says whether a cluster's API server is known to be well. Only an agent that is heard of can tell:
// without one the answer is Unknown, never False.
func Available(cluster *v1alpha1.Cluster) metav1.Condition {
	for _, part := range []string{v1alpha1.ClusterAgentConnectedCondition, v1alpha1.ClusterTargetReachableCondition} {
		said := Said(cluster, part)
		if part == v1alpha1.ClusterAgentConnectedCondition && said.Status != metav1.ConditionTrue {
			said.Status = metav1.ConditionUnknown
		}
		if said.Status != metav1.ConditionTrue {
			return said
		}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReachable,
		Message: "The cluster's agent is connected and reaches the cluster's API server"}
}

// Said is what a condition of cluster says, without its type; Unknown if it is missing.
func Said(cluster *v1alpha1.Cluster, condition string) metav1.Condition {
	found := meta.FindStatusCondition(cluster.Status.Conditions, condition)
	if found == nil {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending, Message: condition + " is not known yet"}
	}
	return metav1.Condition{Status: found.Status, Reason: found.Reason, Message: found.Message}
}
