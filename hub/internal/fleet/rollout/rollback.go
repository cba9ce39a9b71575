package rollout

import (
	"encoding/json"
	"fmt"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

const (
	// LargestPrevious is how many bytes of an earlier template are kept: the annotations of an object may have 256 KiB together.
	LargestPrevious = 96 << 10
	// LongestCause is how many characters of a failure are kept.
	LongestCause = 256
)

// previous is what FleetPreviousAnnotation keeps: all that was applied of a revision, so that a rollback brings back the same,
// whatever the labels of the cluster and the fleet's overrides say meanwhile.
type previous struct {
	Revision string   `json:"revision"`
	Applied  *Applied `json:"applied"`
}

// keepPrevious puts what the MachineDeployment has now into a write that starts another revision, if that is what a rollback is to
// bring back. If it cannot be kept, the record says that there is nothing to go back to.
func (w *Write) keepPrevious() {
	m := w.Member
	if m.Record == nil || w.Record.Previous != m.Record.Revision {
		return // There is none, or it is kept already.
	}
	last := readApplied(m.Deployment)
	if last == nil {
		w.Record.Previous = ""
		return
	}
	text, err := json.Marshal(previous{Revision: w.Record.Previous, Applied: last})
	if err != nil || len(text) > LargestPrevious {
		w.Record.Previous = ""
		return
	}
	w.Content.previous = string(text)
}

// previousApplied is what a rollback applies; nil if there is nothing, or nothing that can be read.
func (m *Member) previousApplied() *Applied {
	if m.Deployment == nil || m.Record == nil || m.Record.Previous == "" {
		return nil
	}
	kept := &previous{}
	err := json.Unmarshal([]byte(m.Deployment.Annotations[v1alpha1.FleetPreviousAnnotation]), kept)
	if err != nil || kept.Revision != m.Record.Previous || kept.Applied == nil || kept.Applied.Spec.ClusterName != m.Deployment.Namespace {
		return nil
	}
	return kept.Applied
}

// notRolledBack adds to why a member has failed, which may be nil, why it is not rolled back.
func (m *Member) notRolledBack(failure *Problem) *Problem {
	why := fmt.Sprintf("it is not rolled back, because it has no earlier template that succeeded, or that template has more than %d KiB", LargestPrevious>>10)
	if m.Record.Previous != "" {
		why = fmt.Sprintf("it is not rolled back, because the annotation %s of MachineDeployment %s/%s, which had revision %s, can no longer be read",
			v1alpha1.FleetPreviousAnnotation, m.Deployment.Namespace, m.Deployment.Name, m.Record.Previous)
	}
	if failure == nil {
		return &Problem{v1alpha1.ReasonNoEarlierTemplate, why}
	}
	return &Problem{failure.Reason, conditions.Shorten(failure.Message, LongestCause) + "; " + why}
}

// rollsBack reports whether the fleet's policy lets any cluster be rolled back.
func (s *Scope) rollsBack() bool {
	policy := s.Fleet.Spec.RollbackPolicy
	return policy == v1alpha1.RollbackFailed || policy == v1alpha1.RollbackAll
}

// plannedInput is what the planner is told of a rollback and of a retry.
func (s *Scope) plannedInput() plan.Input {
	in := plan.Input{
		Revision: s.Revision, Now: s.Now, RollbackPolicy: s.Fleet.Spec.RollbackPolicy, Aborted: s.Fleet.Spec.AbortedRevision == s.Revision,
	}
	if at := s.Fleet.Spec.RetriedAt; at != nil {
		in.RetriedAt = at.Time
	}
	return in
}

// failureCause is why the cluster has failed with a revision that a change is about; empty if it has not.
func (m *Member) failureCause(change plan.Change, revision string) string {
	phase := change.Record.Phase
	if change.RollBack {
		phase = change.From
	}
	switch {
	case change.Apply:
		return ""
	case phase == plan.Failed || phase == plan.TimedOut:
		return conditions.Shorten(m.ReasonOf(phase).Message, LongestCause)
	case m.Record.Revision == revision:
		return m.Record.Cause
	}
	return ""
}
