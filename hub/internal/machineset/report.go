package machineset

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// report computes the set's status from what was observed and from how acting went.
func (c *Controller) report(s *scope, actErr error, now time.Time) {
	set := s.set
	before := set.Status.DeepCopy()
	status := &set.Status
	status.ObservedGeneration = set.Generation
	status.Selector = labels.Set(set.Spec.Selector.MatchLabels).String()
	status.Replicas = int32(s.counts.Total)
	status.ReadyReplicas = int32(s.counts.Ready)
	status.AvailableReplicas = int32(s.counts.Available)
	status.TerminatingReplicas = int32(s.counts.Terminating())
	for _, condition := range []metav1.Condition{
		availableCondition(s), replicaFailure(s, actErr),
	} {
		conditions.Set(&status.Conditions, condition, now)
	}
	if !s.frozen.Frozen { // While it is, nothing new is known of health.
		conditions.Set(&status.Conditions, remediationAllowed(s), now)
	}
	s.setFrozenCondition(now)
	machines.SetReadyConditions(&status.Conditions, machines.ReadyFacts{
		Deleting: set.DeletionTimestamp != nil, Replicas: replicasOf(set), Counts: s.counts, Failed: s.failed,
	}, set.Generation, now)
	for _, news := range turnedBad(before, status) {
		news.Send(c.Recorder, set)
	}
}

// turnedBad returns what to tell about conditions that have just turned bad.
func turnedBad(before, after *v1alpha1.MachineSetStatus) []reconciler.Event {
	var news []reconciler.Event
	was := func(kind, reason string) bool {
		old := meta.FindStatusCondition(before.Conditions, kind)
		return old != nil && old.Reason == reason
	}
	for _, condition := range after.Conditions {
		switch {
		case was(condition.Type, condition.Reason), machines.Repeats(condition.Type):
		case condition.Reason == v1alpha1.ReasonTooManyUnhealthy:
			news = append(news, tooManyUnhealthyEvent(condition.Message))
		case condition.Reason == v1alpha1.ReasonOvershoot:
			news = append(news, overshootEvent(condition.Message))
		case condition.Type == v1alpha1.FrozenCondition && was(condition.Type, v1alpha1.ReasonOvershoot):
			news = append(news, overshootEndedEvent())
		case condition.Reason == v1alpha1.ReasonTooManyCreations:
			news = append(news, runawayEvent(condition.Message))
		case condition.Reason == v1alpha1.ReasonInvalidSelector, condition.Reason == v1alpha1.ReasonInvalidTemplate,
			condition.Reason == v1alpha1.ReasonSelectorOverlap:
			news = append(news, invalidEvent(condition.Reason, condition.Message))
		}
	}
	return news
}

func availableCondition(s *scope) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonMinimumReplicasAvailable, ObservedGeneration: s.set.Generation,
		Message: fmt.Sprintf("%d of %d machines are available", s.counts.Available, replicasOf(s.set)),
	}
	if s.counts.Available < replicasOf(s.set) {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonMinimumReplicasUnavailable
	}
	return condition
}

// replicaFailure repeats what the API server refused until it has taken the next attempt.
func replicaFailure(s *scope, err error) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ReplicaFailureCondition, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonReplicasReconciled, ObservedGeneration: s.set.Generation,
	}
	failures := outcome.Failures(err)
	if len(failures) == 0 && s.countMissing() > 0 && s.known.creationBackoff.failure != nil {
		failures = append(failures, s.known.creationBackoff.failure)
	}
	if len(failures) == 0 && len(s.outdated) > 0 && s.known.updateBackoff.failure != nil {
		failures = append(failures, s.known.updateBackoff.failure)
	}
	switch {
	case s.overlap != "":
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, v1alpha1.ReasonSelectorOverlap, s.overlap
	case len(failures) > 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, failures[0].Reason, failures[0].Error()
	case s.input.Invalid != "":
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, v1alpha1.ReasonInvalidSelector, s.input.Invalid
	case len(s.template.Problems()) > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInvalidTemplate
		condition.Message = "spec.template." + reconciler.ListFew(s.template.Problems())
	case s.countMissing() > 0 && s.creation.runaway:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, v1alpha1.ReasonTooManyCreations, s.creation.why
	}
	return condition
}

// countMissing is how many Machines the set lacks.
func (s *scope) countMissing() int { return max(s.input.Replicas-s.counts.Total, 0) }

func remediationAllowed(s *scope) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.RemediationAllowedCondition, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonWithinMaxUnhealthy, ObservedGeneration: s.set.Generation,
	}
	unhealthy := plan.Unhealthy(s.input.Machines)
	// Machines that are still to go in a scale-down are no alarm.
	limit, _ := s.input.Remediation.Limits(max(s.input.Replicas, s.counts.Active))
	if len(unhealthy) <= limit {
		return condition
	}
	var names []string
	for _, machine := range unhealthy {
		names = append(names, machine.Name)
	}
	condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonTooManyUnhealthy
	condition.Message = fmt.Sprintf("%d of %d machines unhealthy, spec.remediation.maxUnhealthy allows %d, so none is replaced: %s. "+
		"Find out what they have in common, then delete them or raise maxUnhealthy",
		len(unhealthy), s.counts.Total, limit, reconciler.ListFew(names))
	return condition
}

// isUrgent tells a status that must be written now from one with new counts only: the former answers a change
// of spec, turns a condition, or says that the set has come to rest. A set of a deployment is changed and comes to rest
// at every step of a rollout: only the end of that counts, when it is empty or has all that the deployment wants. The
// deployment counts Machines itself; told is whether it learns in another way that its change was worked on.
func isUrgent(before *v1alpha1.MachineSetStatus, set *v1alpha1.MachineSet, told bool) bool {
	after := &set.Status
	owned := metav1.GetControllerOfNoCopy(set) != nil
	if before.ObservedGeneration != after.ObservedGeneration && !(owned && told) || before.Selector != after.Selector {
		return true
	}
	for _, condition := range after.Conditions {
		if owned && (condition.Type == v1alpha1.AvailableCondition || condition.Type == v1alpha1.ReadyCondition) {
			continue
		}
		if machines.ConditionTurned(before.Conditions, condition) {
			return true
		}
	}
	return atRest(set, owned)
}

// atRest reports whether a set has all that it is to have; one that a deployment owns comes to rest at its end only.
func atRest(set *v1alpha1.MachineSet, owned bool) bool {
	status, want := &set.Status, int32(replicasOf(set))
	if owned && want != 0 && set.Annotations[v1alpha1.DesiredReplicasAnnotation] != strconv.Itoa(int(want)) {
		return false
	}
	return status.Replicas == want && status.ReadyReplicas == want && status.AvailableReplicas == want
}
