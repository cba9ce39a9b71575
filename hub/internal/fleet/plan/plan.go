// Package plan decides to which clusters a MachineFleet's template may be applied next. It is pure: the records of the
// clusters and what their MachineDeployments report go in, a Plan comes out. All that it has to remember is in the
// records, which are stored with the objects, so that a hub may be restarted at any moment.
//
// It follows the RolloutStrategy of Open Cluster Management, and is stricter in one thing: with Progressive,
// maxConcurrency also bounds the mandatory groups.
package plan

import (
	"cmp"
	"slices"
	"time"

	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Phase is how far one cluster is with one revision of the template.
type Phase string

const (
	// ToApply: the revision has not been applied yet.
	ToApply Phase = ""
	// Progressing: it is applied, and the MachineDeployment has not reported success yet.
	Progressing Phase = "Progressing"
	// Soaking: the MachineDeployment reports success, and has to keep doing so for minSuccessTime.
	Soaking Phase = "Soaking"
	// Succeeded: it did so. The phase is final for the revision.
	Succeeded Phase = "Succeeded"
	// Failed: the MachineDeployment reported that it cannot continue. The cluster recovers when it reports success.
	Failed Phase = "Failed"
	// TimedOut: no success within progressDeadline. The cluster recovers when it reports success.
	TimedOut Phase = "TimedOut"
	// RollingBack: the template that the cluster had before is applied, and the MachineDeployment has not reported success yet.
	RollingBack Phase = "RollingBack"
	// RolledBack: it did so. The phase is final for the revision, unless a user asks for a retry.
	RolledBack Phase = "RolledBack"
	// RollbackFailed: the MachineDeployment cannot continue with the template that it had before, or was not in time. The cluster
	// is rolled back when it reports success.
	RollbackFailed Phase = "RollbackFailed"
)

// Record is what must not be forgotten of one cluster.
type Record struct {
	// Revision is the one that the rest is about. Of an earlier revision one thing counts: a cluster that is still
	// progressing with it is in progress.
	Revision string
	Phase    Phase
	// Since is when the phase started, or when the cluster was held last.
	Since time.Time
	// Held: the cluster was held when the record was written.
	Held bool
	// Previous is the revision with which the cluster succeeded last before this one. Empty: there is none.
	Previous string
	// Retried is Input.RetriedAt as it was when the revision was started, or failed, last.
	Retried time.Time
	// Started is when the revision was started.
	Begun time.Time
	// Empty: the cluster had no Machine during the soak, so its success proves nothing.
	Empty bool
	// SoakDue is when the first soak would have ended since the revision was started, or since the cluster was held last; zero before it.
	SoakDue time.Time
}

// Observed is what the MachineDeployment of a cluster reports, and whether the cluster's conditions hold.
type Observed struct {
	Generation, ObservedGeneration int64
	// Desired is spec.replicas; the others are counts of the status.
	Desired, Replicas, Updated, Available int32
	// Failing: its conditions say that it cannot continue, since FailingSince.
	Failing      bool
	FailingSince time.Time
	// Deadline is how long the MachineDeployment may make no progress.
	Deadline time.Duration
	// Unhealthy: a condition of the cluster that the fleet rests on does not hold.
	Unhealthy bool
}

// isCurrent reports whether the report is about the current spec.
func (o Observed) isCurrent() bool { return o.Generation == o.ObservedGeneration }

// isHealthy reports whether all replicas are of the current template and available, no others are left, and the cluster's
// conditions hold.
func (o Observed) isHealthy() bool {
	return o.isCurrent() && !o.Failing && !o.Unhealthy && o.Replicas == o.Desired && o.Updated == o.Desired && o.Available == o.Desired
}

// Cluster is one cluster of the fleet.
type Cluster struct {
	Name string
	// Group is the name of its decision group, as the spec says now. Empty: it is in none.
	Group string
	// PromisedGroup is the one that it has by the selectors with which the revision was started; nil if they are not known. It matters for
	// a cluster that is late: the others have theirs in Input.Snapshot.
	PromisedGroup *string
	// LastGroup is the group in which the revision of the record was started.
	LastGroup string
	Record    Record
	Observed  Observed
	// Held: the cluster is frozen or not Ready. Nothing is started there, and nothing that it reports counts.
	Held bool
	// Unreachable: it is held for a reason that Input.UnreachablePolicy is about.
	Unreachable bool
	// Silent: this process has not heard the cluster's agent yet. Nothing is started there, and the record stays as it is: what
	// was reported to another process is no news, and no reason to start a soak again.
	Silent bool
	// HeardAt is when the cluster's agent was heard last; nil if it has none. A soak ends on its news only.
	HeardAt *time.Time
	// Blocked: nothing can be started there until a user changes something. What has started is followed.
	Blocked bool
	// Closed: nothing is started there for the time being. What has started is followed.
	Closed bool
	// Left: the fleet does not select the cluster any more. What has started is followed, and nothing else is done. No wave waits
	// for it, and it takes up room only while it can be seen.
	Left bool
	// PreviousLost: the template of Record.Previous cannot be read.
	PreviousLost bool

	// failsUnreachable: it counts as failed, because it is unreachable. makesRoom: it takes up none for that.
	failsUnreachable, makesRoom bool
	// late: the snapshot does not have it.
	late bool
}

// Input is all that a decision rests on.
type Input struct {
	Strategy ocm.RolloutStrategy
	// Revision of the template that is rolled out. It is not empty.
	Revision string
	// Groups are the names of the decision groups, in their order. The clusters that are in none come last.
	Groups []string
	// NeedApproval are the groups in which nothing may be started without an approval, as the spec says now.
	NeedApproval []string
	// Fleet is the UID of the fleet, and Rollout the number of this rollout of the revision.
	Fleet   string
	Rollout int64
	// Approvals are those that there are now, in any order. Only those for this rollout count.
	Approvals []Approval
	// Clusters are those that the fleet has now, in any order.
	Clusters []Cluster
	// Snapshot has the groups of the clusters that the fleet had when the revision was started, by name; nil if it was not started.
	Snapshot map[string]string
	// Promise is what the spec said when the revision was started. Without one, the rest of the spec promised what it says now.
	Promise *Promise
	// UnreachablePolicy says whether a wave waits for clusters that are unreachable. Empty is Hold.
	UnreachablePolicy v1alpha1.UnreachablePolicy
	// Deleting is how many clusters have left in which the MachineDeployment is being deleted now. Each takes up room.
	Deleting int
	// Paused: nothing is started; what has started is followed.
	Paused bool
	// Aborted: a user wants the revision to be rolled out no further.
	Aborted bool
	// RollbackPolicy says which clusters get back what they had before when a rollout has stopped. Empty is None.
	RollbackPolicy v1alpha1.RollbackPolicy
	// RetriedAt: clusters that had failed or were rolled back with the revision when this was set are started again.
	RetriedAt time.Time
	Now       time.Time
}

// Change is a new record of one cluster.
type Change struct {
	Cluster string
	Record  Record
	// Apply: the template is to be applied in the same write. RollBack: that of Record.Previous is.
	Apply, RollBack bool
	// From is the phase that a rollback ends.
	From Phase
}

// Plan is what to do.
type Plan struct {
	// Changes are to be written in this order. After one that fails none of the later ones may be written: they may
	// rest on it.
	Changes []Change
	// Wave is the number of the current wave, from 0; Waves is how many there are.
	Wave, Waves int
	// Breached: more clusters of the current wave have failed than may.
	Breached bool
	// Stopped: nothing more is started, because the rollout is breached or aborted, or some cluster was rolled back.
	Stopped bool
	// Unproven names the mandatory groups that no cluster has proven the revision for: they have none, or none with Machines.
	// Nothing of later waves is started.
	Unproven []string
	// Changed names the clusters that could be started, were it not that the spec said something else when the revision was started.
	Changed []string
	// AwaitingNews names the clusters whose soak is over when their agents are heard again.
	AwaitingNews []string
	// Room is how many more clusters may be in progress after the changes.
	Room int
	// ToRollBack names the clusters that are still to be rolled back, and NotRolledBack those for which there is nothing to go
	// back to. Both are sorted.
	ToRollBack, NotRolledBack []string
	// Done: every cluster has succeeded, or has failed within what may fail. Skipped clusters keep a rollout from being done.
	Done bool
	// Counts has the number of clusters in each phase after the changes.
	Counts map[Phase]int
	// AwaitingApproval names the unapproved groups for which the current wave waits, in their order.
	AwaitingApproval []string
	// Closed names the clusters of the current wave that are not started for that alone.
	Closed []string
	// Held, Failures and Late name clusters, sorted. Late are those that joined the fleet after the revision
	// was started and are not through with it.
	Held, Failures, Late []string
	// SoakEnds is when the last soak of the revision is over that has started, in clusters that are not held; zero without one.
	SoakEnds time.Time
	// RecheckAfter is when the time alone changes something; 0 if it does not.
	RecheckAfter time.Duration
}

// Decide plans the next step of one fleet's rollout. An error names the field of the strategy that is wrong; nothing
// may be started then.
func Decide(in Input) (Plan, error) {
	clusters := sortByName(in.Clusters)
	all, err := in.readGates(clusters)
	if err != nil {
		return Plan{}, err
	}
	rules := strictestRules(all)
	reopened := in.emptyProofs(all, clusters)
	var p Plan
	for i := range clusters {
		c := &clusters[i]
		c.late = in.isLate(*c)
		next := in.advanceRecord(*c, rules, reopened[c.Name])
		if next != c.Record {
			p.Changes = append(p.Changes, Change{Cluster: c.Name, Record: next})
		}
		c.Record = next
	}
	applyPolicies(all, clusters)
	p.startCurrentWave(in, rules.limit, all, clusters)
	p.reportClusters(in, clusters, rules)
	return p, nil
}

// sortByName returns a copy of clusters, by name.
func sortByName(clusters []Cluster) []Cluster {
	return slices.SortedFunc(slices.Values(clusters), func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
}
