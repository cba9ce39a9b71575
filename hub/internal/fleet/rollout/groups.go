package rollout

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
)

// groupsHaveClusters is the type of the fact that the groups of a fleet have clusters.
const groupsHaveClusters = "GroupsHaveClusters"

// groupFact says whether the groups that have to have a cluster do. A fleet whose clusters all have the revision is not well without:
// its next rollout would wait for the group, or go past the gate that it was.
func (s *Scope) groupFact() metav1.Condition {
	fact := metav1.Condition{Type: groupsHaveClusters, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady}
	if s.Invalid != nil || s.selectedCount() == 0 {
		return fact // That says enough.
	}
	mandatory := plan.MandatoryGroups(s.Fleet.Spec.RolloutStrategy)
	for _, group := range s.Fleet.Spec.Groups {
		if slices.ContainsFunc(s.Members, func(m *Member) bool { return m.Selected && m.group == group.Name }) {
			continue
		}
		why := ""
		switch {
		case slices.Contains(mandatory, group.Name):
			why = "it is mandatory and has no cluster"
		case s.hasLost(group.Name):
			why = "it has lost all its clusters"
		default:
			continue
		}
		remedy := "correct its clusterSelector or the labels of the Clusters"
		if group.ClusterSelector == nil {
			remedy = "correct its name or the decision groups of the Placement"
		}
		fact.Status, fact.Reason = metav1.ConditionFalse, v1alpha1.ReasonGroupWithoutCluster
		fact.Message = fmt.Sprintf("spec.groups[%s]: %s, so the next rollout would lack that gate: %s, or remove the group", group.Name, why, remedy)
		return fact
	}
	return fact
}

// hasLost reports whether a cluster of the fleet was started in a group.
func (s *Scope) hasLost(group string) bool {
	return slices.ContainsFunc(slices.Concat(s.Members, s.Left), func(m *Member) bool { return m.Record != nil && m.Record.Group == group })
}
