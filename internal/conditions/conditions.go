// Package conditions sets and sums up metav1.Conditions. It is pure: the time comes from the caller.
package conditions

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// MaxMessage is how many characters a message in a status may have.
const MaxMessage = 4096

// Set puts condition into list and reports whether its status changed. LastTransitionTime becomes now when
// the status changes and stays otherwise.
func Set(list *[]metav1.Condition, condition metav1.Condition, now time.Time) bool {
	before := meta.FindStatusCondition(*list, condition.Type)
	transition := before == nil || before.Status != condition.Status
	if before != nil && isDefault(*before) {
		before.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	}
	if transition {
		condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	} else {
		condition.LastTransitionTime = before.LastTransitionTime
	}
	condition.Message = Shorten(condition.Message, MaxMessage)
	meta.SetStatusCondition(list, condition)
	return transition
}

// isDefault reports whether the CRD's default put condition into a status that no controller had written: a schema cannot
// know the time, so the default has that of the epoch.
func isDefault(condition metav1.Condition) bool { return condition.LastTransitionTime.Unix() == 0 }

// Part is one row of the table from which a kind's conditions Ready, Reconciling and Stalled are computed.
type Part struct {
	// Type of the condition that counts.
	Type string
	// Wanted is the status that Ready asks for, normally True; False for Frozen.
	Wanted metav1.ConditionStatus
	// Optional parts count only when the condition is there.
	Optional bool
	// Blind parts say that the current state is not known while they are not met: they count as Unknown, and no part
	// after them makes the object Stalled.
	Blind bool
	// Terminal parts make the object Stalled while they are not met, whatever their reason is.
	Terminal bool
}

// Summarize computes the Ready condition of list from table. The first part that is neither met nor Unknown
// makes it False; else the first that is Unknown or missing makes it Unknown. Reason and message are those
// of that part.
func Summarize(list []metav1.Condition, table []Part, generation int64) metav1.Condition {
	ready := metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, ObservedGeneration: generation,
	}
	for _, part := range table {
		found := meta.FindStatusCondition(list, part.Type)
		switch {
		case found == nil && part.Optional, found != nil && found.Status == part.Wanted:
			continue
		case found == nil || found.Status == metav1.ConditionUnknown || part.Blind:
			if ready.Status == metav1.ConditionTrue {
				ready.Status = metav1.ConditionUnknown
				ready.Reason, ready.Message = explainUnmet(part.Type, found)
			}
		default:
			ready.Status = metav1.ConditionFalse
			ready.Reason, ready.Message = explainUnmet(part.Type, found)
			return ready
		}
	}
	return ready
}

func explainUnmet(conditionType string, found *metav1.Condition) (reason, message string) {
	if found == nil {
		return v1alpha1.ReasonUnknown, conditionType + " is not known yet"
	}
	if found.Message == "" {
		return found.Reason, fmt.Sprintf("%s is %s", found.Type, found.Status)
	}
	return found.Reason, fmt.Sprintf("%s: %s", found.Type, found.Message)
}
