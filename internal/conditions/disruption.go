package conditions

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// overFact is the type of the fact that a disruption is over.
const overFact = "Run"

// disruptionTable is what a NodeDisruption or a NodeDisruptionRun asks for to be Ready.
var disruptionTable = []Part{
	{Type: failed, Wanted: metav1.ConditionFalse, Optional: true, Terminal: true},
	{Type: overFact, Wanted: metav1.ConditionTrue},
}

// ConcludeDisruption computes Ready, Reconciling and Stalled of a NodeDisruption or a NodeDisruptionRun from its phase and
// message: Ready is True when it is over.
func ConcludeDisruption(list *[]metav1.Condition, phase v1alpha1.NodeDisruptionRunPhase, message string, generation int64, now time.Time) {
	fact := metav1.Condition{Type: overFact, Status: metav1.ConditionFalse, Reason: string(phase), Message: message}
	switch phase {
	case v1alpha1.NodeDisruptionCompleted:
		fact.Status = metav1.ConditionTrue
	case v1alpha1.NodeDisruptionFailed:
		fact.Type, fact.Status = failed, metav1.ConditionTrue
	case v1alpha1.NodeDisruptionPending, v1alpha1.NodeDisruptionRunning, v1alpha1.NodeDisruptionPaused:
	}
	Conclude(list, []metav1.Condition{fact}, disruptionTable, generation, now)
}
