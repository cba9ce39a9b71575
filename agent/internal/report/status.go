package report

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// facts are what the agent knows of its cluster now. What is empty is not known.
type facts struct {
	clusterUID, kubernetesVersion, agentVersion string
	capacity                                    corev1.ResourceList
	// finding is what waits for a person's acknowledgement.
	finding      string
	findingKnown bool
	// orphans is what has no Machine on the hub.
	orphans      *v1alpha1.Orphans
	orphansKnown bool
	freeze       freeze.State
	generation   int64
	now          time.Time
}

// ownConditions are the condition types that the agent writes on a Cluster.
var ownConditions = []string{v1alpha1.ClusterTargetReachableCondition, v1alpha1.ClusterAgentFrozenCondition}

// statusOf computes the agent's part of a Cluster's status. What is not known now stays as it was last reported.
func statusOf(before v1alpha1.ClusterStatus, f facts) v1alpha1.ClusterStatus {
	after := v1alpha1.ClusterStatus{
		ClusterUID: before.ClusterUID, KubernetesVersion: before.KubernetesVersion,
		AgentVersion: f.agentVersion, Capacity: before.Capacity, UnacknowledgedHub: before.UnacknowledgedHub,
		Orphans: before.Orphans,
	}
	if f.findingKnown {
		after.UnacknowledgedHub = f.finding
	}
	if f.orphansKnown {
		after.Orphans = f.orphans
	}
	if f.clusterUID != "" {
		after.ClusterUID = f.clusterUID
	}
	if f.kubernetesVersion != "" {
		after.KubernetesVersion = f.kubernetesVersion
	}
	if f.capacity != nil {
		after.Capacity = f.capacity
	}
	for _, conditionType := range ownConditions {
		if condition := meta.FindStatusCondition(before.Conditions, conditionType); condition != nil {
			after.Conditions = append(after.Conditions, *condition)
		}
	}
	for _, condition := range []metav1.Condition{targetReachable(f), agentFrozen(f)} {
		known := meta.FindStatusCondition(after.Conditions, condition.Type)
		if known != nil && known.Status == condition.Status && known.Reason == condition.Reason && before.UnacknowledgedHub == after.UnacknowledgedHub {
			// The message of a failing probe changes from one to the next; the first one is telling enough.
			condition.Message = known.Message
		}
		conditions.Set(&after.Conditions, condition, f.now)
	}
	return after
}

func targetReachable(f facts) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ClusterTargetReachableCondition, Status: metav1.ConditionUnknown,
		Reason: v1alpha1.ReasonStarting, ObservedGeneration: f.generation,
	}
	for _, endpoint := range f.freeze.Endpoints {
		if endpoint.Scope != freeze.Target {
			continue
		}
		condition.Reason, condition.Message = endpoint.Reason, endpoint.LastMessage
		switch endpoint.Reason {
		case v1alpha1.ReasonReachable:
			condition.Status, condition.Message = metav1.ConditionTrue, ""
		case v1alpha1.ReasonUnreachable:
			condition.Status = metav1.ConditionFalse
		}
	}
	return condition
}

func agentFrozen(f facts) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ClusterAgentFrozenCondition, Status: metav1.ConditionFalse,
		Reason: f.freeze.Reason, Message: f.freeze.Message, ObservedGeneration: f.generation,
	}
	if f.freeze.Frozen {
		condition.Status = metav1.ConditionTrue
	}
	return condition
}

// same tells whether the Cluster has the agent's part of the status already.
func same(cluster v1alpha1.ClusterStatus, own v1alpha1.ClusterStatus) bool {
	if cluster.ClusterUID != own.ClusterUID || cluster.KubernetesVersion != own.KubernetesVersion ||
		cluster.AgentVersion != own.AgentVersion || cluster.UnacknowledgedHub != own.UnacknowledgedHub || !equality.Semantic.DeepEqual(cluster.Capacity, own.Capacity) ||
		!equality.Semantic.DeepEqual(cluster.Orphans, own.Orphans) {
		return false
	}
	for _, condition := range own.Conditions {
		known := meta.FindStatusCondition(cluster.Conditions, condition.Type)
		if known == nil || !equality.Semantic.DeepEqual(*known, condition) {
			return false
		}
	}
	return true
}
