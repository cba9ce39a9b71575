package machinedeployment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	machinesets "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// report computes the deployment's status from what was observed and from how acting went.
func report(s *scope, actErr error, now time.Time) {
	deployment := s.deployment
	status := &deployment.Status
	status.ObservedGeneration = deployment.Generation
	status.Selector = labels.Set(deployment.Spec.Selector.MatchLabels).String()
	status.Replicas = int32(s.counts.Total)
	status.UpdatedReplicas = int32(s.countUpdated())
	status.ReadyReplicas = int32(s.counts.Ready)
	status.AvailableReplicas = int32(s.counts.Available)
	status.TerminatingReplicas = int32(s.counts.Terminating())
	status.UnavailableReplicas = int32(max(replicasOf(deployment)-s.counts.Available, 0))
	list := []metav1.Condition{availableCondition(s), replicaFailure(s, actErr)}
	if allowed := remediationAllowed(s); allowed != nil {
		list = append(list, *allowed)
	}
	for _, condition := range list {
		condition.ObservedGeneration = deployment.Generation
		conditions.Set(&status.Conditions, condition, now)
	}
}

// reportProgress computes what depends on the time that passes, and returns when it may change by itself; before is
// the status that is stored.
func (c *Controller) reportProgress(s *scope, before *v1alpha1.MachineDeploymentStatus, now time.Time) time.Duration {
	status := &s.deployment.Status
	progress := c.progressingCondition(s, before, now)
	next := c.updateProgressing(s, &progress, now)
	putCondition(&status.Conditions, progress)
	if !s.frozen.Passing {
		frozen := s.frozen.Condition(s.deployment.Generation)
		first := meta.FindStatusCondition(status.Conditions, frozen.Type) == nil && frozen.Status == metav1.ConditionFalse
		if conditions.Set(&status.Conditions, frozen, now) && !first {
			emitEvent(c.Recorder, s.deployment, frozenEvent(frozen))
		}
	}
	concludeStatus(s, now)
	return next
}

// concludeStatus computes Ready, Reconciling and Stalled from all the rest of the status.
func concludeStatus(s *scope, now time.Time) {
	list := &s.deployment.Status.Conditions
	facts := machines.ReadyFacts{
		Deleting: s.deployment.DeletionTimestamp != nil, Replicas: replicasOf(s.deployment), Counts: s.counts,
		Progressing: meta.FindStatusCondition(*list, v1alpha1.ProgressingCondition),
	}
	if s.current != nil {
		facts.Failed = s.machines[s.current.UID].failed
	}
	machines.SetReadyConditions(list, facts, s.deployment.Generation, now)
}

// emitProgress sends an event when the status, which is about to be stored, says something else of the rollout than before.
func (c *Controller) emitProgress(deployment *v1alpha1.MachineDeployment, before *v1alpha1.MachineDeploymentStatus) {
	old := meta.FindStatusCondition(before.Conditions, v1alpha1.ProgressingCondition)
	now := meta.FindStatusCondition(deployment.Status.Conditions, v1alpha1.ProgressingCondition)
	if told := progressEvent(old, now); told != nil {
		emitEvent(c.Recorder, deployment, *told)
	}
}

// countUpdated is the number of Machines of the current template, without those that are still to be updated in place and
// those that are being deleted.
func (s *scope) countUpdated() int {
	if s.current == nil {
		return 0
	}
	counts := s.machines[s.current.UID]
	return counts.Active - counts.Updating
}

// allUpdated reports whether all Machines, those being deleted too, have the current template.
func (s *scope) allUpdated() bool {
	if s.current == nil {
		return false
	}
	counts := s.machines[s.current.UID]
	return counts.Total == s.counts.Total && counts.Updating == 0
}

func availableCondition(s *scope) metav1.Condition {
	want := replicasOf(s.deployment)
	enough := want
	if kind := s.deployment.Spec.Strategy.Type; kind == v1alpha1.RollingUpdate || kind == v1alpha1.InPlace {
		_, unavailable := s.deployment.Spec.Strategy.Bounds(want)
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

// replicaFailure is what the API server refused to the deployment, else to one of its sets.
func replicaFailure(s *scope, err error) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ReplicaFailureCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReplicasReconciled,
	}
	if failures := outcome.Failures(err); len(failures) > 0 {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, failures[0].Reason, failures[0].Error()
		return condition
	}
	if _, problems := machinesets.Usable(s.deployment.Spec.Template.Metadata); len(problems) > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInvalidTemplate
		condition.Message = "spec.template." + reconciler.ListFew(problems)
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

// remediationAllowed is what the sets say of themselves; nil if none does.
func remediationAllowed(s *scope) *metav1.Condition {
	var sum *metav1.Condition
	for _, set := range s.sets {
		said := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.RemediationAllowedCondition)
		if said == nil || sum != nil && said.Status == metav1.ConditionTrue {
			continue
		}
		sum = &metav1.Condition{Type: said.Type, Status: said.Status, Reason: said.Reason, Message: said.Message}
		if said.Status != metav1.ConditionTrue {
			sum.Message = fmt.Sprintf("MachineSet %s: %s", set.Name, said.Message)
		}
		if said.Status == metav1.ConditionFalse {
			break
		}
	}
	return sum
}

// takesTurns reports whether a rollout has got its turn, or lost it, among those that share its surge. With a small surge
// that happens at each Machine.
func takesTurns(before, after string) bool {
	return before == v1alpha1.ReasonRollingOut && after == v1alpha1.ReasonAwaitingSurge ||
		before == v1alpha1.ReasonAwaitingSurge && after == v1alpha1.ReasonRollingOut
}

// isUrgent tells a status that must be written now from one with new counts only: the former answers a change
// of spec, turns a condition, or says that the deployment has come to rest.
func isUrgent(before *v1alpha1.MachineDeploymentStatus, deployment *v1alpha1.MachineDeployment) bool {
	after := &deployment.Status
	if before.ObservedGeneration != after.ObservedGeneration || before.Selector != after.Selector ||
		(before.CollisionCount == nil) != (after.CollisionCount == nil) ||
		after.CollisionCount != nil && *before.CollisionCount != *after.CollisionCount {
		return true
	}
	for _, condition := range after.Conditions {
		old := meta.FindStatusCondition(before.Conditions, condition.Type)
		if machines.ConditionTurned(before.Conditions, condition) && !(old != nil && old.Status == condition.Status && takesTurns(old.Reason, condition.Reason)) {
			return true
		}
	}
	want := int32(replicasOf(deployment))
	return after.Replicas == want && after.UpdatedReplicas == want && after.ReadyReplicas == want && after.AvailableReplicas == want
}

// leftBehind names the Machines and MachineSets that carry the deployment's name and that it can neither use nor delete,
// and says what to do about each; empty if there are none.
func (s *scope) leftBehind() []string {
	var notes []string
	var names []string
	for _, machine := range s.ownerless.facts {
		if !machine.Deleting {
			names = append(names, machine.Name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		notes = append(notes, fmt.Sprintf("%d machines count although their MachineSet does not exist: %s: the garbage collector "+
			"deletes them; if it does not, delete them yourself", len(names), reconciler.ListFew(names)))
	}
	names = nil
	for _, set := range s.leftovers {
		names = append(names, set.Name)
	}
	if len(names) > 0 {
		notes = append(notes, fmt.Sprintf("MachineSet %s has the label %s=%s and no owner, and spec.selector does not match its labels, "+
			"so it keeps its machines in addition to those of this deployment: delete it, or give it matching labels to have it adopted",
			reconciler.ListFew(names), v1alpha1.MachineDeploymentNameLabel, s.deployment.Name))
	}
	names = nil
	for _, set := range s.strangers {
		names = append(names, set.Name)
	}
	if len(names) > 0 {
		notes = append(notes, fmt.Sprintf("MachineSet %s has no owner, and spec.selector matches it: adopting it would remove machines, "+
			"so it keeps them in addition to those of this deployment: delete it, or give it the label %s=%s to have it adopted",
			reconciler.ListFew(names), v1alpha1.MachineDeploymentNameLabel, s.deployment.Name))
	}
	return notes
}

// withLeftBehind is message followed by what is left behind.
func (s *scope) withLeftBehind(message string) string {
	notes := s.leftBehind()
	if kept := s.describeKeptConfig(); kept != "" {
		notes = slices.Insert(notes, 0, kept)
	}
	if message != "" {
		notes = slices.Insert(notes, 0, message)
	}
	return strings.Join(notes, "; ")
}

// emitLeftBehind sends an event about each thing left behind that the stored status, before, does not name.
func (c *Controller) emitLeftBehind(s *scope, before *v1alpha1.MachineDeploymentStatus) {
	told := ""
	if old := meta.FindStatusCondition(before.Conditions, v1alpha1.ProgressingCondition); old != nil {
		told = old.Message
	}
	for _, note := range s.leftBehind() {
		if !strings.Contains(told, note) {
			emitEvent(c.Recorder, s.deployment, reconciler.WarningEvent("LeftBehind", "Reconcile", note))
		}
	}
}
