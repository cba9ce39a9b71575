package conditions

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// ConcludeLoadTest computes Ready, Reconciling and Stalled of a LoadTest or a LoadTestRun from its phase and message: Ready is True
// when it is over, whatever its verdict is.
func ConcludeLoadTest(list *[]metav1.Condition, phase, message string, generation int64, now time.Time) {
	fact := metav1.Condition{Type: overFact, Status: metav1.ConditionFalse, Reason: phase, Message: message}
	switch phase {
	case string(v1alpha1.LoadTestRunPhaseCompleted):
		fact.Status = metav1.ConditionTrue
	case string(v1alpha1.LoadTestRunPhaseFailed):
		fact.Type, fact.Status = failed, metav1.ConditionTrue
	}
	Conclude(list, []metav1.Condition{fact}, disruptionTable, generation, now)
}
