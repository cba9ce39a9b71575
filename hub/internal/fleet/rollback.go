package fleet

import (
	"encoding/json"
	"fmt"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// largestPrevious is how many bytes of an earlier template are kept: the annotations of an object may have 256 KiB together.
	largestPrevious = 96 << 10
	// longestCause is how many characters of a failure are kept.
	longestCause = 256
)

// previous is what FleetPreviousAnnotation keeps: all that was applied of a revision, so that a rollback brings back the same,
// whatever the labels of the cluster and the fleet's overrides say meanwhile.
type previous struct {
	Revision string   `json:"revision"`
	Applied  *applied `json:"applied"`
}

// keepPrevious puts what the MachineDeployment has now into a write that starts another revision, if that is what a rollback is to
// bring back. If it cannot be kept, the record says that there is nothing to go back to.
func (w *write) keepPrevious() {
	m := w.member
	if m.record == nil || w.record.Previous != m.record.Revision {
		return // There is none, or it is kept already.
	}
	last := readApplied(m.deployment)
	if last == nil {
		w.record.Previous = ""
		return
	}
	text, err := json.Marshal(previous{Revision: w.record.Previous, Applied: last})
	if err != nil || len(text) > largestPrevious {
		w.record.Previous = ""
		return
	}
	w.content.previous = string(text)
}

// previousApplied is what a rollback applies; nil if there is nothing, or nothing that can be read.
func (m *member) previousApplied() *applied {
	if m.deployment == nil || m.record == nil || m.record.Previous == "" {
		return nil
	}
	kept := &previous{}
	err := json.Unmarshal([]byte(m.deployment.Annotations[v1alpha1.FleetPreviousAnnotation]), kept)
	if err != nil || kept.Revision != m.record.Previous || kept.Applied == nil || kept.Applied.Spec.ClusterName != m.deployment.Namespace {
		return nil
	}
	return kept.Applied
}

// notRolledBack adds to why a member has failed, which may be nil, why it is not rolled back.
func (m *member) notRolledBack(failure *problem) *problem {
	why := fmt.Sprintf("it is not rolled back, because it has no earlier template that succeeded, or that template has more than %d KiB", largestPrevious>>10)
	if m.record.Previous != "" {
		why = fmt.Sprintf("it is not rolled back, because the annotation %s of MachineDeployment %s/%s, which had revision %s, can no longer be read",
			v1alpha1.FleetPreviousAnnotation, m.deployment.Namespace, m.deployment.Name, m.record.Previous)
	}
	if failure == nil {
		return &problem{v1alpha1.ReasonNoEarlierTemplate, why}
	}
	return &problem{failure.reason, conditions.Shorten(failure.message, longestCause) + "; " + why}
}

// rollsBack reports whether the fleet's policy lets any cluster be rolled back.
func (s *scope) rollsBack() bool {
	policy := s.fleet.Spec.RollbackPolicy
	return policy == v1alpha1.RollbackFailed || policy == v1alpha1.RollbackAll
}

// plannedInput is what the planner is told of a rollback and of a retry.
func (s *scope) plannedInput() plan.Input {
	in := plan.Input{
		Revision: s.revision, Now: s.now, RollbackPolicy: s.fleet.Spec.RollbackPolicy, Aborted: s.fleet.Spec.AbortedRevision == s.revision,
	}
	if at := s.fleet.Spec.RetriedAt; at != nil {
		in.RetriedAt = at.Time
	}
	return in
}

// failureCause is why the cluster has failed with a revision that a change is about; empty if it has not.
func (m *member) failureCause(change plan.Change, revision string) string {
	phase := change.Record.Phase
	if change.RollBack {
		phase = change.From
	}
	switch {
	case change.Apply:
		return ""
	case phase == plan.Failed || phase == plan.TimedOut:
		return conditions.Shorten(m.reasonOf(phase).message, longestCause)
	case m.record.Revision == revision:
		return m.record.Cause
	}
	return ""
}
