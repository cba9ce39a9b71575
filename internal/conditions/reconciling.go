package conditions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// stalling are the reasons that last until a user changes something: the object is Stalled for them. Every other reason
// may end without the user, and the object is Reconciling.
var stalling = []string{
	v1alpha1.ReasonDenied,
	v1alpha1.ReasonNameTaken, v1alpha1.ReasonNoHost, v1alpha1.ReasonHostSimulated, v1alpha1.ReasonHostNotAllowed, v1alpha1.ReasonNoHostSelected, v1alpha1.ReasonScaleDownDisabled,
	v1alpha1.ReasonVersionNotSupported, v1alpha1.ReasonControlPlaneDowngrade,
	v1alpha1.ReasonNamespaceConflict,
	v1alpha1.ReasonHubChanged, v1alpha1.ReasonHubRestored, v1alpha1.ReasonHubEmpty,
	v1alpha1.ReasonVersionSkew,
	v1alpha1.ReasonOvershoot, v1alpha1.ReasonDeploymentOvershoot,
	v1alpha1.ReasonUndecodable, v1alpha1.ReasonInvalidTemplate, v1alpha1.ReasonInvalidSelector,
	v1alpha1.ReasonUnsupportedKubeletVersion, v1alpha1.ReasonConfigSourceUnavailable,
	v1alpha1.ReasonSelectorOverlap,
	v1alpha1.ReasonProgressDeadlineExceeded,
	v1alpha1.ReasonTooManyUnhealthy,
	v1alpha1.ReasonInPlaceUnsupported,
	v1alpha1.ReasonTooManyFailures, v1alpha1.ReasonRolloutFailed, v1alpha1.ReasonClustersBlocked,
	v1alpha1.ReasonAborted, v1alpha1.ReasonRolledBack, v1alpha1.ReasonGroupUnproven, v1alpha1.ReasonGatesChanged, v1alpha1.ReasonGroupWithoutCluster, v1alpha1.ReasonFieldsContested,
	v1alpha1.ReasonInvalidFleet, v1alpha1.ReasonKubeletDowngrade, v1alpha1.ReasonSelectionEmptied,
}

// Conclude computes Ready, Reconciling and Stalled from table and puts them into list. Facts are conditions that count
// and are not stored; one of a type that is stored takes its place.
func Conclude(list *[]metav1.Condition, facts []metav1.Condition, table []Part, generation int64, now time.Time) {
	all := slices.Clone(*list)
	for _, fact := range facts {
		meta.RemoveStatusCondition(&all, fact.Type)
		all = append(all, fact)
	}
	ready := Summarize(all, table, generation)
	for _, fact := range facts { // Its type is no condition that a reader could look up.
		ready.Message = strings.TrimPrefix(ready.Message, fact.Type+": ")
	}
	Set(list, ready, now)
	setCondition(list, progressCondition(all, table, generation), now)
}

// ReconcileMachine computes Reconciling and Stalled of a Machine from the rest of its status. The agent does when it
// reports, and so does the hub when it sets Stale or removes it, so that both say the same.
func ReconcileMachine(status *v1alpha1.MachineStatus, deleting bool, now time.Time) {
	table := machineTable
	all := slices.Clone(status.Conditions)
	if deleting {
		table = machineTable[:1]
		all = append(all, Deleting("the machine is being deleted"))
	}
	if status.ErrorReason != "" {
		all = append(all, metav1.Condition{
			Type: failed, Status: metav1.ConditionTrue, Reason: status.ErrorReason, Message: status.ErrorMessage,
		})
	}
	setCondition(&status.Conditions, progressCondition(all, table, status.ObservedGeneration), now)
}

// DeletingFact is the type of the fact that an object is being deleted.
const DeletingFact = "Deleting"

// failed is the type of the fact that a Machine has a terminal error.
const failed = "Failed"

// machineTable is what a Machine asks for to be neither Reconciling nor Stalled.
var machineTable = []Part{
	{Type: DeletingFact, Wanted: metav1.ConditionFalse, Optional: true},
	{Type: v1alpha1.MachineStaleCondition, Wanted: metav1.ConditionFalse, Optional: true, Blind: true},
	{Type: failed, Wanted: metav1.ConditionFalse, Optional: true, Terminal: true},
	{Type: v1alpha1.MachineUpdatedCondition, Wanted: metav1.ConditionTrue, Optional: true},
	{Type: v1alpha1.ReadyCondition, Wanted: metav1.ConditionTrue},
}

// Deleting is the fact that an object is being deleted.
func Deleting(message string) metav1.Condition {
	return metav1.Condition{Type: DeletingFact, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDeleting, Message: message}
}

// progressCondition is the condition Reconciling or Stalled that all and table lead to; nil for neither. The first part that lasts
// until a user changes something makes it Stalled. Else the first part that is not met makes it Reconciling.
func progressCondition(all []metav1.Condition, table []Part, generation int64) *metav1.Condition {
	var result *metav1.Condition
	for _, part := range table {
		found := meta.FindStatusCondition(all, part.Type)
		if found == nil && part.Optional || found != nil && found.Status == part.Wanted {
			continue
		}
		condition := unmetCondition(part, found, generation)
		if condition.Type == v1alpha1.StalledCondition {
			return &condition
		}
		if result == nil {
			result = &condition
		}
		if part.Blind {
			break
		}
	}
	return result
}

// unmetCondition is the condition that one part leads to which is not met.
func unmetCondition(part Part, found *metav1.Condition, generation int64) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ReconcilingCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUnknown,
		Message: part.Type + " is not known yet", ObservedGeneration: generation,
	}
	if found == nil {
		return condition
	}
	if part.Terminal || slices.Contains(stalling, found.Reason) {
		condition.Type = v1alpha1.StalledCondition
	}
	condition.Reason, condition.Message = found.Reason, found.Message
	if found.Message == "" {
		condition.Message = fmt.Sprintf("%s is %s", found.Type, found.Status)
	}
	return condition
}

// setCondition puts condition into list, and removes Reconciling and Stalled otherwise: both are absent when they are not True.
func setCondition(list *[]metav1.Condition, condition *metav1.Condition, now time.Time) {
	for _, kind := range []string{v1alpha1.ReconcilingCondition, v1alpha1.StalledCondition} {
		if condition == nil || condition.Type != kind {
			meta.RemoveStatusCondition(list, kind)
		}
	}
	if condition != nil {
		Set(list, *condition, now)
	}
}
