package simulatedcluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// observedFact is the fact that the agent's word is about the current spec. It is no condition of its own.
const observedFact = "ControlPlaneObserved"

// report computes the hub's part of the status.
func (c *Controller) report(s *scope) {
	one, now := s.one, c.Clock.Now()
	status := &one.Status
	status.ObservedGeneration = one.Generation
	set := func(kind string, condition metav1.Condition) {
		condition.Type, condition.ObservedGeneration = kind, one.Generation
		conditions.Set(&status.Conditions, condition, now)
	}
	if !s.held.Passing {
		set(v1alpha1.FrozenCondition, s.held.Condition(one.Generation))
	}
	if one.DeletionTimestamp != nil {
		conditions.Conclude(&status.Conditions, []metav1.Condition{s.removing}, []conditions.Part{{Type: conditions.DeletingFact, Wanted: metav1.ConditionFalse}}, one.Generation, now)
		return
	}
	set(v1alpha1.ClusterCreatedCondition, s.created)
	if s.startsWithAny() {
		set(v1alpha1.MachineDeploymentsCreatedCondition, s.started)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.MachineDeploymentsCreatedCondition)
	}
	set(v1alpha1.ClusterReadyCondition, s.clusterReady())
	conditions.Conclude(&status.Conditions, s.explainObserved(), readyTable(s), one.Generation, now)
}

// clusterReady repeats the Ready condition of the Cluster.
func (s *scope) clusterReady() metav1.Condition {
	if !s.owns() {
		return pendingCondition("The Cluster does not exist yet")
	}
	ready := meta.FindStatusCondition(s.cluster.Status.Conditions, v1alpha1.ReadyCondition)
	if ready == nil {
		return pendingCondition("Ready of the Cluster is not known yet")
	}
	return metav1.Condition{Status: ready.Status, Reason: ready.Reason, Message: ready.Message}
}

// explainObserved is a fact while what the host's agent said last is about an earlier spec.
func (s *scope) explainObserved() []metav1.Condition {
	said := meta.FindStatusCondition(s.one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)
	if said == nil || said.ObservedGeneration == s.one.Generation {
		return nil
	}
	return []metav1.Condition{{
		Type: observedFact, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending,
		Message: fmt.Sprintf("The agent of Cluster %s has not observed the current spec yet", s.one.Namespace),
	}}
}

// readyTable is what Ready is made of. While the host is silent, it is not known. While nothing is known of the control plane, the silence of
// the cluster's agent does not explain it.
func readyTable(s *scope) []conditions.Part {
	plane := meta.FindStatusCondition(s.one.Status.Conditions, v1alpha1.ControlPlaneReadyCondition)
	unknown := plane == nil || plane.Status == metav1.ConditionUnknown
	return []conditions.Part{
		{Type: v1alpha1.ClusterCreatedCondition, Wanted: metav1.ConditionTrue},
		{Type: v1alpha1.FrozenCondition, Wanted: metav1.ConditionFalse, Optional: true, Blind: freeze.Blind(s.held.Reason)},
		{Type: v1alpha1.ControlPlaneReadyCondition, Wanted: metav1.ConditionTrue},
		{Type: observedFact, Wanted: metav1.ConditionTrue, Optional: true},
		{Type: v1alpha1.MachineDeploymentsCreatedCondition, Wanted: metav1.ConditionTrue, Optional: true},
		{Type: v1alpha1.ClusterReadyCondition, Wanted: metav1.ConditionTrue, Blind: unknown},
	}
}
