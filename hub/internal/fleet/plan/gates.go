package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// gates are one reading of the waves and bounds of a rollout: as the spec is now, or as it was when the revision was started. A
// cluster is started only where all readings allow it, so no edit in the middle of a rollout opens a gate.
type gates struct {
	rules
	// groups are those of the clusters, by name, and members those on which the percentages rest.
	groups, members map[string]string
	// policy is about clusters that are unreachable, and policies is what holds for each, by name; none for one that is not.
	policy   v1alpha1.UnreachablePolicy
	policies map[string]v1alpha1.UnreachablePolicy
	// promised are the gates as they were when the revision was started; nil if these are them, or there are none.
	promised *gates

	// wave is the number of the current one. open: it is not through. skipped: some cluster up to there is left out.
	wave          int
	open, skipped bool
	// breached: more clusters of the current wave have failed than may. failed: also without those that are only unreachable.
	breached, failed bool
	// proven and unproven are mandatory groups. needsProof: the current wave is one, and has no other clusters than late ones
	// that could prove the revision.
	proven, unproven []string
	needsProof       bool
}

// readGates returns the gates as they were promised, if the revision was started, and as they are now.
func (in Input) readGates(clusters []Cluster) ([]*gates, error) {
	members := in.groupMembers()
	read, err := newRules(in.Strategy, in.Groups, len(members))
	if err != nil {
		return nil, err
	}
	now := &gates{rules: read, groups: groupsNow(clusters), members: maps.Clone(members), policy: in.UnreachablePolicy}
	for name := range members {
		if group, here := now.groups[name]; here {
			now.members[name] = group
		}
	}
	if in.Snapshot == nil {
		return []*gates{now}, nil
	}
	promise := Promise{Strategy: in.Strategy, Groups: in.Groups}
	if in.Promise != nil {
		promise = *in.Promise
	}
	if read, err = newRules(promise.Strategy, promise.Groups, len(members)); err != nil {
		return nil, fmt.Errorf("rolloutStrategy: the copy from the start of the rollout cannot be used (%w): set spec.retriedAt to start the rollout again", err)
	}
	now.promised = &gates{rules: read, groups: maps.Clone(now.groups), members: members, policy: cmp.Or(promise.UnreachablePolicy, in.UnreachablePolicy)}
	for _, c := range clusters {
		now.promised.groups[c.Name] = in.promisedGroup(c)
	}
	maps.Copy(now.promised.groups, members) // Some may not be among the clusters any more.
	return []*gates{now.promised, now}, nil
}

// strictestRules are the bounds that keep to all gates. A cluster that takes longer than the shorter deadline has failed: more time for
// it would be more failures than were allowed.
func strictestRules(all []*gates) rules {
	strict := all[len(all)-1].rules
	for _, g := range all {
		strict.limit, strict.soak = min(strict.limit, g.limit), max(strict.soak, g.soak)
		if g.deadline > 0 && (strict.deadline == 0 || g.deadline < strict.deadline) {
			strict.deadline = g.deadline
		}
	}
	return strict
}

// applyPolicies finds out what holds for each cluster that is unreachable. By each reading its own policy does. The cluster counts as
// failed if it does by one of them, and gives its room up only if it does so by all.
func applyPolicies(all []*gates, clusters []Cluster) {
	for _, g := range all {
		g.policies = map[string]v1alpha1.UnreachablePolicy{}
		for _, c := range clusters {
			if policy := policyFor(c, g.policy, all); policy != "" {
				g.policies[c.Name] = policy
			}
		}
	}
	for i := range clusters {
		c := &clusters[i]
		c.makesRoom = true
		for _, g := range all {
			policy := g.policies[c.Name]
			c.failsUnreachable = c.failsUnreachable || policy == v1alpha1.UnreachableFail
			c.makesRoom = c.makesRoom && (policy == v1alpha1.UnreachableSkip || policy == v1alpha1.UnreachableFail)
		}
	}
}

// readCluster returns a cluster as one reading of the gates sees it.
func (g *gates) readCluster(c Cluster) Cluster {
	c.failsUnreachable = g.policies[c.Name] == v1alpha1.UnreachableFail
	return c
}

// waveOf is the number of a cluster's wave.
func (g *gates) waveOf(c Cluster) int {
	return slices.IndexFunc(g.waves, func(w wave) bool { return w.hasGroup(g.groups[c.Name]) })
}

func (g *gates) isMandatory(c Cluster) bool {
	at := g.waveOf(c)
	return at >= 0 && g.waves[at].mandatory
}

// hasTurn reports whether it is a cluster's turn while the current wave is open, or when all waves are through.
func (g *gates) hasTurn(c Cluster) bool {
	at := g.waveOf(c)
	switch {
	case at < 0:
		return false
	case !c.late:
		return g.open && at == g.wave
	case !g.open || at < g.wave:
		return true
	}
	// One that is late waits until its mandatory group has proven the revision, unless there is no other that could.
	return at == g.wave && (!g.waves[at].mandatory || g.needsProof)
}

// findWaves finds the current wave of each reading. The last is that of the current spec, whose number the plan has, but the one
// that was promised goes before it. failed: the rollout is breached also without the clusters that are only unreachable.
func (p *Plan) findWaves(in Input, all []*gates, clusters []Cluster) (failed bool) {
	for _, g := range all {
		g.findWave(in, clusters)
		p.Breached, failed = p.Breached || g.breached, failed || g.failed
		for _, group := range g.unproven {
			if !slices.Contains(p.Unproven, group) {
				p.Unproven = append(p.Unproven, group)
			}
		}
	}
	p.Wave, p.Waves = all[0].wave, len(all[0].waves)
	return failed
}

// tally is what the clusters of one wave come to, without those that are late.
type tally struct {
	failed, unreachable   int
	open, skipped, proven bool
}

// findWave finds the current wave: the first that is breached, or is not through, else the last.
func (g *gates) findWave(in Input, clusters []Cluster) {
	for i, w := range g.waves {
		g.wave = i
		t, most := g.tallyWave(in, i, clusters), w.maxFailures(g.failures, g.members)
		g.breached, g.failed = t.failed+t.unreachable > most, t.failed > most
		g.open, g.skipped = t.open, g.skipped || t.skipped
		if w.mandatory && !g.open && !g.breached && !g.isProven(in, i, t, clusters) {
			g.unproven = append(g.unproven, w.groups...)
			// A fleet that has nothing to start is at rest all the same.
			g.open = slices.ContainsFunc(clusters, func(c Cluster) bool { return !c.Left && in.isUnfinished(g.readCluster(c)) })
			g.needsProof = g.open
		}
		if g.breached || g.open {
			return
		}
	}
}

// tallyWave counts the clusters of a wave. No wave waits for one that has left; that it failed is not forgotten.
func (g *gates) tallyWave(in Input, number int, clusters []Cluster) tally {
	var t tally
	for _, c := range clusters {
		if c.late || g.waveOf(c) != number || c.Left && in.retryAsked(c) {
			continue
		}
		switch in.phaseOf(g.readCluster(c)) {
		case Failed, TimedOut, RollingBack, RolledBack, RollbackFailed:
			if in.hasFailed(c) {
				t.failed++
			} else {
				t.unreachable++
			}
		case Succeeded:
			t.proven = t.proven || !c.Record.Empty
		case ToApply, Progressing, Soaking:
			switch {
			case c.Left:
			case g.policies[c.Name] == v1alpha1.UnreachableSkip:
				t.skipped = true
			default:
				t.open = true
			}
		}
	}
	return t
}

// isProven reports whether a mandatory wave in which nothing is open has proven the revision: a cluster with Machines has succeeded.
// What was proven stays so when the cluster is gone: then a cluster of a later wave was started.
func (g *gates) isProven(in Input, number int, t tally, clusters []Cluster) bool {
	group := g.waves[number].groups[0]
	proven := t.proven || slices.ContainsFunc(clusters, func(c Cluster) bool {
		return c.late && g.waveOf(c) == number && in.phaseOf(c) == Succeeded && !c.Record.Empty
	})
	if in.Snapshot != nil && g.promised == nil {
		proven = proven || slices.ContainsFunc(clusters, func(c Cluster) bool {
			return !c.late && g.waveOf(c) > number && in.wasBegun(c)
		})
	}
	if proven = proven || g.promised != nil && slices.Contains(g.promised.proven, group); proven {
		g.proven = append(g.proven, group)
	}
	return proven
}

// wasBegun reports whether the revision was started in a cluster since the promise was made, and not in an earlier rollout.
func (in Input) wasBegun(c Cluster) bool {
	return c.Record.Revision == in.Revision && in.Promise != nil && !c.Record.Begun.Before(in.Promise.Since)
}

// emptyProofs are the clusters of mandatory groups that have Machines now, and had none when they succeeded, where no other
// cluster of the group has proven the revision.
func (in Input) emptyProofs(all []*gates, clusters []Cluster) map[string]bool {
	found := map[string]bool{}
	for _, g := range all {
		for i, w := range g.waves {
			if !w.mandatory || slices.ContainsFunc(clusters, func(c Cluster) bool {
				return g.waveOf(c) == i && c.Record.Revision == in.Revision && c.Record.Phase == Succeeded && !c.Record.Empty
			}) {
				continue
			}
			for _, c := range clusters {
				r := c.Record
				if g.waveOf(c) == i && r.Revision == in.Revision && r.Phase == Succeeded && r.Empty && c.Observed.Desired > 0 && !c.Left {
					found[c.Name] = true
				}
			}
		}
	}
	return found
}

// AwaitedGroup is the group whose approval a cluster waits for; empty if it waits for none: that which it has now, or that which
// it had when the revision was started, if that needed one then. A cluster in no group waits for those groups too that have lost all
// their clusters, and for the one in which it was started last: it may be in none because of a label, or of a group of a
// Placement, that has another name now.
func (in Input) AwaitedGroup(c Cluster) string {
	unapproved := in.unapprovedGroups()
	if slices.Contains(unapproved, c.Group) {
		return c.Group
	}
	promised := in.promisedGroup(c)
	if in.Promise != nil && in.Snapshot != nil && slices.Contains(in.Promise.Approval, promised) &&
		!in.isApproved(promised) && (c.Group == "" || !in.isApproved(c.Group)) {
		return promised
	}
	if c.Group != "" {
		return ""
	}
	for _, group := range unapproved {
		lost := !slices.ContainsFunc(in.Clusters, func(other Cluster) bool { return other.Group == group && !other.Left })
		if lost || group == c.LastGroup {
			return group
		}
	}
	return ""
}

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
