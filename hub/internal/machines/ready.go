package machines

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// ReadyFacts are what counts beside the conditions that are in the status.
type ReadyFacts struct {
	// Deleting: the object is being deleted.
	Deleting bool
	// Replicas is spec.replicas.
	Replicas int
	// Counts are of the object's Machines.
	Counts Counts
	// Failed are the Machines of the current template that have a terminal error.
	Failed []Failure
	// Progressing is the condition of that name of a MachineDeployment; nil for a MachineSet.
	Progressing *metav1.Condition
}

// Failure says why a Machine failed.
type Failure struct{ Machine, Reason, Message string }

// Types of the facts that are not stored as conditions.
const (
	failed    = "Failed"
	rolledOut = "RolledOut"
	scaled    = "Scaled"
)

// SetReadyConditions puts Ready, and Reconciling or Stalled, into list, which has the object's other conditions.
func SetReadyConditions(list *[]metav1.Condition, facts ReadyFacts, generation int64, now time.Time) {
	counted := []metav1.Condition{facts.scaledCondition()}
	if failure := facts.failedCondition(); failure != nil {
		counted = append(counted, *failure)
	}
	if facts.Progressing != nil {
		counted = append(counted, facts.rolledOut())
	}
	table := tableOf(*list)
	if facts.Deleting {
		counted, table = append(counted, conditions.Deleting("the object is being deleted")), table[:1]
	}
	conditions.Conclude(list, counted, table, generation, now)
}

// tableOf is what Ready is made of, in the order in which its parts explain an object that is not ready. While the
// state of the Machines is not known, all that follows is what was known last.
func tableOf(list []metav1.Condition) []conditions.Part {
	frozen := meta.FindStatusCondition(list, v1alpha1.FrozenCondition)
	return []conditions.Part{
		{Type: conditions.DeletingFact, Wanted: metav1.ConditionFalse, Optional: true},
		{Type: v1alpha1.FrozenCondition, Wanted: metav1.ConditionFalse, Optional: true, Blind: frozen != nil && freeze.Blind(frozen.Reason)},
		{Type: v1alpha1.ReplicaFailureCondition, Wanted: metav1.ConditionFalse, Optional: true},
		{Type: v1alpha1.RemediationAllowedCondition, Wanted: metav1.ConditionTrue, Optional: true},
		{Type: failed, Wanted: metav1.ConditionFalse, Optional: true, Terminal: true},
		{Type: rolledOut, Wanted: metav1.ConditionTrue, Optional: true},
		{Type: scaled, Wanted: metav1.ConditionTrue},
	}
}

// scaledCondition reports whether there are as many Machines as the spec asks for, all of them available.
func (f *ReadyFacts) scaledCondition() metav1.Condition {
	condition := metav1.Condition{Type: scaled, Status: metav1.ConditionFalse}
	switch counts := f.Counts; {
	case counts.Active < f.Replicas:
		condition.Reason, condition.Message = v1alpha1.ReasonScalingUp, fmt.Sprintf("%d of %d machines exist", counts.Active, f.Replicas)
	case counts.Available < f.Replicas:
		condition.Reason = v1alpha1.ReasonMinimumReplicasUnavailable
		condition.Message = fmt.Sprintf("%d of %d machines are available", counts.Available, f.Replicas)
	case counts.Total > f.Replicas:
		condition.Reason = v1alpha1.ReasonScalingDown
		condition.Message = plural.Are(counts.Total-f.Replicas, "machine") + " still to go"
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonReady
	}
	return condition
}

// failedCondition names the first Machine that failed for a reason for which any other of the template would fail too. One that
// ran into a timeout is replaced without the user.
func (f *ReadyFacts) failedCondition() *metav1.Condition {
	lasting := slices.DeleteFunc(slices.Clone(f.Failed), func(failure Failure) bool {
		return failure.Reason == v1alpha1.ErrorCreationTimeout || failure.Reason == v1alpha1.ErrorHealthTimeout
	})
	if len(lasting) == 0 {
		return nil
	}
	first := slices.MinFunc(lasting, func(a, b Failure) int { return cmp.Compare(a.Machine, b.Machine) })
	return &metav1.Condition{
		Type: failed, Status: metav1.ConditionTrue, Reason: first.Reason,
		Message: fmt.Sprintf("%d of %d machines failed, among them %s: %s", len(lasting), f.Replicas, first.Machine, first.Message),
	}
}

// rolledOut reports whether all Machines have the current template.
func (f *ReadyFacts) rolledOut() metav1.Condition {
	condition := metav1.Condition{
		Type: rolledOut, Status: metav1.ConditionFalse, Reason: f.Progressing.Reason, Message: f.Progressing.Message,
	}
	if f.Progressing.Reason == v1alpha1.ReasonNewMachineSetAvailable {
		condition.Status = metav1.ConditionTrue
	}
	return condition
}

// Repeats reports whether a condition of that type repeats the reason of another, for which there is an event already.
func Repeats(conditionType string) bool {
	switch conditionType {
	case v1alpha1.ReadyCondition, v1alpha1.ReconcilingCondition, v1alpha1.StalledCondition:
		return true
	}
	return false
}

// ConditionTurned reports whether condition says something else than before that is worth a write at once. The reasons of Ready and
// Reconciling change with the steps of a rollout: of those two only the status of Ready counts.
func ConditionTurned(before []metav1.Condition, condition metav1.Condition) bool {
	old := meta.FindStatusCondition(before, condition.Type)
	switch {
	case condition.Type == v1alpha1.ReconcilingCondition:
		return false
	case old == nil || old.Status != condition.Status:
		return true
	}
	return condition.Type != v1alpha1.ReadyCondition && old.Reason != condition.Reason
}
