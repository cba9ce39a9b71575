package health

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// longestObservation is how long hub or agent may take to report on a change. A busy hub was measured to take some seconds.
const longestObservation = 30 * time.Second

// judgeUnobserved judges an object whose status is not about its current spec: it is in progress for a moment after the last change, and
// then a problem. A set whose MachineDeployment rolls out is changed every few seconds and reports once a minute; its MachineDeployment
// reports for it meanwhile, and notices if nothing gets done.
func (j *Judge) judgeUnobserved(s *subject, message string) *judgement {
	bound := longestObservation
	if parent, _ := s.parentOf(); s.kind == MachineSet && parent == MachineDeployment {
		bound += reconciler.LongestStatusInterval
	}
	found := s.newProblem(ReasonNotObserved, message)
	found.since = s.lastChange()
	if age := j.Now.Sub(found.since.Time); age >= 0 && age <= bound {
		found.state = InProgress
	}
	return found
}

// lastChange is when the object was last changed apart from its status, as the API server has noted.
func (s *subject) lastChange() metav1.Time {
	last := s.GetCreationTimestamp()
	for _, entry := range s.GetManagedFields() {
		if entry.Subresource == "" && entry.Time != nil && last.Before(entry.Time) {
			last = *entry.Time
		}
	}
	return last
}
