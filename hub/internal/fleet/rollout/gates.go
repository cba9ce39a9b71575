package rollout

import (
	"fmt"
	"slices"

	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// awaitedGates says for which gates of the rollout clusters wait, and what a user can do.
func (s *Scope) awaitedGates(p plan.Plan) string {
	text := ""
	if groups := p.AwaitingApproval; len(groups) > 0 {
		text += fmt.Sprintf("; waiting for approval: %s: %s", reconciler.ListFew(groups), approveCommand(s.Fleet.Name, groups))
		if gone := slices.DeleteFunc(slices.Clone(groups), s.hasGroup); len(gone) > 0 {
			text += fmt.Sprintf(
				". %s needed approval when the rollout started, and is no longer in spec.groups: approve the group that its clusters have now, restore the group, or set spec.retriedAt to start by the current spec",
				reconciler.ListFew(gone))
		}
	}
	if len(p.Unproven) > 0 {
		text += fmt.Sprintf(
			"; mandatory groups in which no cluster with Machines has proven the revision: %s: add a cluster to the group, scale one up, or remove the group from mandatoryDecisionGroups (and set spec.retriedAt if the rollout has started)",
			reconciler.ListFew(p.Unproven))
	}
	if len(p.Changed) > 0 {
		text += fmt.Sprintf(
			"; waiting because groups, waves or unreachablePolicy were changed since the rollout started, and until it is complete both the earlier and the current spec apply: %s: wait, revert the change, or %s",
			reconciler.ListFew(p.Changed), wayOut)
	}
	return text
}

// approveCommand is what a user runs who may approve groups of a fleet.
func approveCommand(fleet string, groups []string) string {
	command := "kubectl hollow rollout approve machinefleet " + fleet
	if len(groups) > 3 {
		return command + " --all"
	}
	for _, group := range groups {
		command += " --group " + group
	}
	return command
}

func (s *Scope) hasGroup(name string) bool {
	for i := range s.Fleet.Spec.Groups {
		if s.Fleet.Spec.Groups[i].Name == name {
			return true
		}
	}
	return false
}
