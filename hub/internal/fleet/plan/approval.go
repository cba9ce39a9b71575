package plan

import "slices"

// Approval is one that a user has given. It counts for one rollout of one fleet, in one group, and for nothing else: not for another
// fleet of the name, not for other templates, and not for the same templates after others.
type Approval struct {
	// Fleet is the UID of the fleet.
	Fleet    string
	Revision string
	Rollout  int64
	Group    string
}

// isApproved reports whether a user has approved this rollout for a group, whether the group needs that or not.
func (in Input) isApproved(group string) bool {
	return group != "" && slices.Contains(in.Approvals, Approval{Fleet: in.Fleet, Revision: in.Revision, Rollout: in.Rollout, Group: group})
}

// unapprovedGroups are the groups that need an approval, as the spec says now, and do not have it.
func (in Input) unapprovedGroups() []string {
	return slices.DeleteFunc(slices.Clone(in.NeedApproval), in.isApproved)
}

// NeedsApproval reports whether a cluster is started by an approval only, whether there is one or not.
func (in Input) NeedsApproval(c Cluster) bool {
	in.Approvals = nil
	return in.AwaitedGroup(c) != ""
}
