package fleet

import (
	"strings"

	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// A record names the revision of the fleet and, where an override has its part in the template, that template's hash after a
// dot: a cluster for which another override holds from now on does not have the revision. The planner knows one revision for all
// clusters, so what a member is to have is that one for it.

const hashMark = "."

// wantedRecord is what the record of a member says when it has the current revision.
func (m *member) wantedRecord(s *scope) string {
	if m.template.hash == "" {
		return s.revision
	}
	return s.revision + hashMark + m.template.hash
}

// toPlan is a revision of a member's record as the planner has it.
func (m *member) toPlan(s *scope, revision string) string {
	switch revision {
	case m.wantedRecord(s):
		return s.revision
	case s.revision:
		return s.revision + hashMark // The fleet's, but not with the template that the member is to have.
	}
	return revision
}

// fromPlan is the opposite of toPlan.
func (m *member) fromPlan(s *scope, revision string) string {
	switch revision {
	case s.revision:
		return m.wantedRecord(s)
	case s.revision + hashMark:
		return s.revision
	}
	return revision
}

// storedRecord is a record of the planner as it is stored.
func (m *member) storedRecord(s *scope, r plan.Record) plan.Record {
	r.Revision, r.Previous = m.fromPlan(s, r.Revision), m.fromPlan(s, r.Previous)
	return r
}

// fleetRevision is the revision of the fleet in a stored one.
func fleetRevision(stored string) string {
	revision, _, _ := strings.Cut(stored, hashMark)
	return revision
}
