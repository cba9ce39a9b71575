package fleet

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// standing is what metrics say of a fleet beyond its status. It has points in time instead of ages, so that a hub that stands
// still does not look well.
type standing struct {
	// planned: the rest of the first group is known. It is not while the fleet is frozen or invalid.
	planned  bool
	breached bool
	// groupsUnapproved is how many groups the rollout waits for, and closed how many clusters wait for a maintenance window.
	groupsUnapproved, closed int
	soakEnds                 time.Time

	// started is when the revision was first started in a cluster, and progressed when a cluster, or a Machine there, last got
	// further; zero if no cluster has it.
	started, progressed time.Time
	// Machines of the fleet's MachineDeployments, as they last reported.
	total, updated, available int
}

// noteStanding keeps the standing of a fleet after a decision. Of an invalid fleet nothing was read, so that its Machines stay what they
// were.
func (c *Controller) noteStanding(observed *rollout.Scope, d rollout.Decision) {
	current := standingFor(observed, d)
	if observed.Invalid != nil {
		current, _ = c.standings.ValueOf(observed.Fleet.UID)
		current.planned = false
	}
	c.standings.SetValue(observed.Fleet.UID, current)
}

// standingFor is the standing of the fleet after a decision.
func standingFor(s *rollout.Scope, d rollout.Decision) standing {
	all := standing{
		planned: d.Plan.Waves > 0, breached: d.Plan.Breached, groupsUnapproved: len(d.Plan.AwaitingApproval), closed: len(d.Plan.Closed),
		soakEnds: d.Plan.SoakEnds,
	}
	for _, m := range s.Members {
		if m.Deployment == nil || !m.Selected {
			continue
		}
		status := &m.Deployment.Status
		all.total += int(status.Replicas)
		all.updated += int(status.UpdatedReplicas)
		all.available += int(status.AvailableReplicas)
		if !s.IsCurrent(m) {
			continue
		}
		record := m.Record.PlannedRecord()
		if !record.Begun.IsZero() && (all.started.IsZero() || record.Begun.Before(all.started)) {
			all.started = record.Begun
		}
		all.noteProgress(record.Since)
		// While a MachineDeployment rolls out, this is the time of its last progress.
		if progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ProgressingCondition); progressing != nil && progressing.Reason == v1alpha1.ReasonRollingOut {
			all.noteProgress(progressing.LastTransitionTime.Time)
		}
	}
	return all
}

// noteProgress takes progress at a time into account.
func (s *standing) noteProgress(at time.Time) {
	if at.After(s.progressed) {
		s.progressed = at
	}
}
