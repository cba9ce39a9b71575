package machineset

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// report computes the set's status from what was observed and from how acting went.
func report(s *scope, actErr error, now time.Time) {
	set := s.set
	status := &set.Status
	status.ObservedGeneration = set.Generation
	status.Selector = labels.Set(set.Spec.Selector.MatchLabels).String()
	status.Replicas = int32(s.counts.Total)
	status.ReadyReplicas = int32(s.counts.Ready)
	status.AvailableReplicas = int32(s.counts.Available)
	for _, condition := range []metav1.Condition{
		available(s), replicaFailure(set, actErr),
	} {
		conditions.Set(&status.Conditions, condition, now)
	}
	if !s.frozen.Passing {
		conditions.Set(&status.Conditions, s.frozen.Condition(set.Generation), now)
	}
}

func available(s *scope) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonMinimumReplicasAvailable, ObservedGeneration: s.set.Generation,
		Message: fmt.Sprintf("%d of %d machines are available", s.counts.Available, replicas(s.set)),
	}
	if s.counts.Available < replicas(s.set) {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonMinimumReplicasUnavailable
	}
	return condition
}

func replicaFailure(set *v1alpha1.MachineSet, err error) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ReplicaFailureCondition, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonReplicasReconciled, ObservedGeneration: set.Generation,
	}
	if refused := (*actError)(nil); errors.As(err, &refused) {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, refused.reason, refused.Error()
	}
	return condition
}

// urgent tells a status that must be written now from one with new counts only: the former answers a change
// of spec, turns a condition, or says that the set has come to rest.
func urgent(before *v1alpha1.MachineSetStatus, set *v1alpha1.MachineSet) bool {
	after := &set.Status
	if before.ObservedGeneration != after.ObservedGeneration || before.Selector != after.Selector {
		return true
	}
	for _, condition := range after.Conditions {
		old := meta.FindStatusCondition(before.Conditions, condition.Type)
		if old == nil || old.Status != condition.Status || old.Reason != condition.Reason {
			return true
		}
	}
	want := int32(replicas(set))
	return after.Replicas == want && after.ReadyReplicas == want && after.AvailableReplicas == want
}
