package machinedeployment

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// report computes the deployment's status from what was observed and from how acting went.
func report(s *scope, actErr error, now time.Time) {
	deployment := s.deployment
	status := &deployment.Status
	status.ObservedGeneration = deployment.Generation
	status.Selector = labels.Set(deployment.Spec.Selector.MatchLabels).String()
	status.Replicas = int32(s.counts.Total)
	status.UpdatedReplicas = int32(s.updated())
	status.ReadyReplicas = int32(s.counts.Ready)
	status.AvailableReplicas = int32(s.counts.Available)
	status.UnavailableReplicas = int32(max(replicas(deployment)-s.counts.Available, 0))
	for _, condition := range []metav1.Condition{
		available(s), progressing(s), replicaFailure(s, actErr),
	} {
		condition.ObservedGeneration = deployment.Generation
		conditions.Set(&status.Conditions, condition, now)
	}
	if !s.frozen.Passing {
		conditions.Set(&status.Conditions, s.frozen.Condition(deployment.Generation), now)
	}
}

// updated is the number of Machines of the current template.
func (s *scope) updated() int {
	if s.current == nil {
		return 0
	}
	return s.machines[s.current.UID].Total
}

func available(s *scope) metav1.Condition {
	want := replicas(s.deployment)
	enough := want
	if s.deployment.Spec.Strategy.Type == v1alpha1.RollingUpdate {
		_, unavailable := plan.Bounds(s.deployment.Spec.Strategy, want)
		enough -= unavailable
	}
	condition := metav1.Condition{
		Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMinimumReplicasAvailable,
		Message: fmt.Sprintf("%d of %d machines are available", s.counts.Available, want),
	}
	if s.counts.Available < enough {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonMinimumReplicasUnavailable
	}
	return condition
}

func progressing(s *scope) metav1.Condition {
	want := replicas(s.deployment)
	condition := metav1.Condition{Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionTrue}
	switch {
	case s.updated() == want && s.counts.Total == want && s.counts.Available >= want:
		condition.Reason = v1alpha1.ReasonNewMachineSetAvailable
	case s.deployment.Spec.Paused:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPaused
		condition.Message = "spec.paused is set: no machine is replaced until it is unset"
	default:
		condition.Reason = v1alpha1.ReasonRollingOut
		condition.Message = fmt.Sprintf("%d of %d machines have the current template", s.updated(), want)
	}
	return condition
}

// replicaFailure is what the API server refused to the deployment, else to one of its sets.
func replicaFailure(s *scope, err error) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ReplicaFailureCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReplicasReconciled,
	}
	if refused := (*actError)(nil); errors.As(err, &refused) {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, refused.reason, refused.Error()
		return condition
	}
	for _, set := range s.sets {
		failure := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ReplicaFailureCondition)
		if failure != nil && failure.Status == metav1.ConditionTrue {
			condition.Status, condition.Reason = metav1.ConditionTrue, failure.Reason
			condition.Message = fmt.Sprintf("MachineSet %s: %s", set.Name, failure.Message)
			return condition
		}
	}
	return condition
}

// urgent tells a status that must be written now from one with new counts only: the former answers a change
// of spec, turns a condition, or says that the deployment has come to rest.
func urgent(before *v1alpha1.MachineDeploymentStatus, deployment *v1alpha1.MachineDeployment) bool {
	after := &deployment.Status
	if before.ObservedGeneration != after.ObservedGeneration || before.Selector != after.Selector ||
		(before.CollisionCount == nil) != (after.CollisionCount == nil) ||
		after.CollisionCount != nil && *before.CollisionCount != *after.CollisionCount {
		return true
	}
	for _, condition := range after.Conditions {
		old := meta.FindStatusCondition(before.Conditions, condition.Type)
		if old == nil || old.Status != condition.Status || old.Reason != condition.Reason {
			return true
		}
	}
	want := int32(replicas(deployment))
	return after.Replicas == want && after.UpdatedReplicas == want && after.ReadyReplicas == want && after.AvailableReplicas == want
}
