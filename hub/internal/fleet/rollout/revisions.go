package rollout

import (
	"strings"

	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// A record names the revision of the fleet and, where an override has its part in the template, that template's hash after a
// dot: a cluster for which another override holds from now on does not have the revision. The planner knows one revision for all
// clusters, so what a member is to have is that one for it.

const hashMark = "."

// wantedRecord is what the record of a member says when it has the current revision.
func (m *Member) wantedRecord(s *Scope) string {
	if m.template.hash == "" {
		return s.Revision
	}
	return s.Revision + hashMark + m.template.hash
}

// toPlan is a revision of a member's record as the planner has it.
func (m *Member) toPlan(s *Scope, revision string) string {
	switch revision {
	case m.wantedRecord(s):
		return s.Revision
	case s.Revision:
		return s.Revision + hashMark // The fleet's, but not with the template that the member is to have.
	}
	return revision
}

// fromPlan is the opposite of toPlan.
func (m *Member) fromPlan(s *Scope, revision string) string {
	switch revision {
	case s.Revision:
		return m.wantedRecord(s)
	case s.Revision + hashMark:
		return s.Revision
	}
	return revision
}

// dropUnchanged reads a record of an older hub, which noted the hash of the template also where an override changes nothing of it.
func (r *Record) dropUnchanged(revision, unchanged string) {
	for _, stored := range []*string{&r.Revision, &r.Previous} {
		if *stored == revision+hashMark+unchanged {
			*stored = revision
		}
	}
}

// storedRecord is a record of the planner as it is stored.
func (m *Member) storedRecord(s *Scope, r plan.Record) plan.Record {
	r.Revision, r.Previous = m.fromPlan(s, r.Revision), m.fromPlan(s, r.Previous)
	return r
}

// FleetRevision is the revision of the fleet in a stored one.
func FleetRevision(stored string) string {
	revision, _, _ := strings.Cut(stored, hashMark)
	return revision
}
