package plan

import (
	"slices"
	"time"

	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The percentages of a strategy rest on the snapshot: the clusters that the fleet had when the revision was started, each in the
// group that it had then. A cluster that is not in it is late. It takes up room, and its turn is when its wave has come; no wave
// waits for it, and its failure stops nothing. The rollout is complete only with it.

// Promise is what a spec said when a revision was started. Until the revision is through, or a user has it started again, nothing is
// started that it would not have allowed.
type Promise struct {
	// Since is when the first cluster was started.
	Since    time.Time           `json:"since,omitzero"`
	Strategy ocm.RolloutStrategy `json:"strategy"`
	// Groups are the names of the decision groups in their order, and Approval those that need an approval.
	Groups   []string `json:"groups,omitempty"`
	Approval []string `json:"approval,omitempty"`
	// UnreachablePolicy is empty in what an older hub has kept. Then the one of the current spec was promised.
	UnreachablePolicy v1alpha1.UnreachablePolicy `json:"unreachablePolicy,omitempty"`
}

// groupMembers is the snapshot, or what it would be if the revision were started now.
func (in Input) groupMembers() map[string]string {
	if in.Snapshot != nil {
		return in.Snapshot
	}
	return groupsNow(in.Clusters)
}

// groupsNow are the groups that clusters have now, by name.
func groupsNow(clusters []Cluster) map[string]string {
	groups := map[string]string{}
	for _, c := range clusters {
		groups[c.Name] = c.Group
	}
	return groups
}

// isLate reports whether the revision was started without a cluster.
func (in Input) isLate(c Cluster) bool {
	_, known := in.Snapshot[c.Name]
	return in.Snapshot != nil && !known
}

// promisedGroup is the group that a cluster has by the promise: the one that it had then or, if it is late, the one that it would have
// had.
func (in Input) promisedGroup(c Cluster) string {
	if group, known := in.Snapshot[c.Name]; known {
		return group
	}
	if c.PromisedGroup != nil {
		return *c.PromisedGroup
	}
	return c.Group
}

// Begun reports whether the revision has been started in a cluster, and that is not over: if the fleet has gone to another one and
// back, it is a new rollout.
func (in Input) Begun() bool {
	return slices.ContainsFunc(in.Clusters, func(c Cluster) bool { return c.Record.Phase != ToApply && c.Record.Revision == in.Revision })
}
