package plan

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// reading is a spec by which a start is checked, by other means than the planner's.
type reading struct {
	name     string
	strategy ocm.RolloutStrategy
	groups   []string
	policy   v1alpha1.UnreachablePolicy
	// of and members are the groups of the clusters, and of those on which percentages rest.
	of, members map[string]string
}

// readings are the current spec and, if the revision was started, the one with which it was.
func readings(in Input) []reading {
	now := reading{name: "now", strategy: in.Strategy, groups: in.Groups, policy: in.UnreachablePolicy, of: map[string]string{}, members: map[string]string{}}
	maps.Copy(now.members, in.Snapshot)
	for _, c := range in.Clusters {
		now.of[c.Name] = c.Group
		if _, known := in.Snapshot[c.Name]; known || in.Snapshot == nil {
			now.members[c.Name] = c.Group
		}
	}
	for name, group := range now.members {
		if !slices.Contains(in.Groups, group) {
			now.members[name] = "" // A cluster that is gone, of a group that is gone too, was in none by the current spec.
		}
	}
	if in.Snapshot == nil {
		return []reading{now}
	}
	then := reading{name: "as promised", strategy: in.Strategy, groups: in.Groups, policy: in.UnreachablePolicy, of: maps.Clone(now.of), members: in.Snapshot}
	for _, c := range in.Clusters {
		if c.PromisedGroup != nil {
			then.of[c.Name] = *c.PromisedGroup
		}
	}
	maps.Copy(then.of, in.Snapshot)
	if in.Promise != nil {
		then.strategy, then.groups = in.Promise.Strategy, in.Promise.Groups
		if in.Promise.UnreachablePolicy != "" {
			then.policy = in.Promise.UnreachablePolicy
		}
	}
	return []reading{now, then}
}

// failures are how many clusters of each group have failed. unreachable: also for that alone.
func (r reading) failures(in Input, unreachable bool) map[string]int {
	failed := map[string]int{}
	_, _, late := placed(in)
	for _, c := range in.Clusters {
		ours := c.Record.Revision == in.Revision
		lost := unreachable && c.Unreachable && !c.Left && r.policy == v1alpha1.UnreachableFail && (!ours || c.Record.Phase != Succeeded || retried(in, c))
		if !late[c.Name] && (ours && hasFailed(c) && !retried(in, c) || lost) {
			failed[r.of[c.Name]]++
		}
	}
	return failed
}

// mayFail is how many may fail outside of mandatory groups: of all clusters, or of a group.
func (r reading) mayFail(group string) int {
	var amount intstr.IntOrString
	total := 0
	for _, of := range r.members {
		if r.strategy.Progressive != nil || of == group {
			total++
		}
	}
	switch {
	case r.strategy.Progressive != nil:
		amount = r.strategy.Progressive.MaxFailures
	case r.strategy.ProgressivePerGroup != nil:
		amount = r.strategy.ProgressivePerGroup.MaxFailures
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(&amount, total, false)
	return n
}

func (r reading) failedOutside(failed map[string]int) int {
	total := 0
	for group, n := range failed {
		if !isMandatory(mandatoryOf(r.strategy), group) {
			total += n
		}
	}
	return total
}

// busyBeside is how many other clusters are in progress.
func busyBeside(in Input, cluster string) int {
	busy := in.Deleting
	for _, c := range in.Clusters {
		all := readings(in)
		mandatory := slices.ContainsFunc(all, func(r reading) bool { return isMandatory(mandatoryOf(r.strategy), r.of[c.Name]) })
		waitsFor := func(r reading) bool {
			return r.policy != v1alpha1.UnreachableFail && (mandatory || r.policy != v1alpha1.UnreachableSkip)
		}
		passed := c.Left && c.Held || c.Unreachable && !c.Left && !slices.ContainsFunc(all, waitsFor)
		ours := c.Record.Revision == in.Revision
		if c.Name != cluster && !passed && (c.Record.Phase == Progressing || c.Record.Phase == RollingBack || ours && c.Record.Phase == Soaking) {
			busy++
		}
	}
	return busy
}

// hasProof reports whether a cluster with Machines has succeeded in a group.
func (r reading) hasProof(in Input, group string) bool {
	return slices.ContainsFunc(in.Clusters, func(c Cluster) bool {
		return r.of[c.Name] == group && c.Record.Revision == in.Revision && c.Record.Phase == Succeeded && !c.Record.Empty
	})
}

// begunLater takes a promised mandatory group for proven if the revision was started in a cluster of a later wave: it may be in any
// state, and what has proven it may be gone.
func begunLater(in Input) func(string) bool {
	return func(group string) bool {
		if in.Snapshot == nil {
			return false
		}
		then := readings(in)[1]
		_, _, late := placed(in)
		return slices.ContainsFunc(in.Clusters, func(c Cluster) bool {
			return !late[c.Name] && c.Record.Revision == in.Revision && in.Promise != nil && !c.Record.Begun.Before(in.Promise.Since) &&
				slices.Contains(begunBefore(mandatoryOf(then.strategy), then.of[c.Name]), group)
		})
	}
}

// checkBegun checks one start against the objects as they are when it is written. proven tells which mandatory groups of the
// promise have proven the revision before.
func checkBegun(t *rapid.T, in Input, change Change, proven func(group string) bool) {
	t.Helper()
	begun := in.Clusters[slices.IndexFunc(in.Clusters, func(c Cluster) bool { return c.Name == change.Cluster })]
	if in.Paused || in.Aborted || begun.Closed || begun.Held || begun.Silent || begun.Blocked || begun.Left ||
		begun.Record.Revision == in.Revision && !retried(in, begun) {
		t.Fatalf("%s is started: paused %t, aborted %t, %+v", change.Cluster, in.Paused, in.Aborted, begun)
	}
	for _, c := range in.Clusters {
		if c.Record.Revision == in.Revision && isRolledBack(c) && !c.Left && !retried(in, c) {
			t.Fatalf("%s is started although %s was rolled back: %+v", change.Cluster, c.Name, c.Record)
		}
	}
	checkApproved(t, in, begun)
	both := readings(in)
	for _, r := range both {
		checkBounds(t, in, r, begun)
		checkInTime(t, in, r)
		checkOrder(t, in, r, begun, func(group string) bool {
			return r.hasProof(in, group) || len(both) > 1 && isMandatory(mandatoryOf(both[1].strategy), group) &&
				// A cluster proves the group that it was promised for, also when it has another one now.
				(proven(group) || both[1].hasProof(in, group))
		})
	}
}

// hasApproval reports whether a human has approved this very rollout for a group.
func hasApproval(in Input, group string) bool {
	for _, a := range in.Approvals {
		if a.Fleet == in.Fleet && a.Revision == in.Revision && a.Rollout == in.Rollout && a.Group == group {
			return true
		}
	}
	return false
}

// checkApproved checks that a human has approved the rollout for a cluster, by its group now and by the one that was promised.
func checkApproved(t *rapid.T, in Input, begun Cluster) {
	t.Helper()
	if slices.Contains(in.NeedApproval, begun.Group) && !hasApproval(in, begun.Group) {
		t.Fatalf("%s is started without an approval of its group %s", begun.Name, begun.Group)
	}
	then := begun.Group
	if in.Snapshot != nil {
		then = readings(in)[1].of[begun.Name]
	}
	approved := hasApproval(in, then) || begun.Group != "" && hasApproval(in, begun.Group)
	if in.Snapshot != nil && in.Promise != nil && slices.Contains(in.Promise.Approval, then) && !approved {
		t.Fatalf("%s is started without the approval that group %s needed when the rollout started", begun.Name, then)
	}
	for _, group := range in.NeedApproval {
		has := slices.ContainsFunc(in.Clusters, func(c Cluster) bool { return c.Group == group && !c.Left })
		if begun.Group == "" && !hasApproval(in, group) && (!has || begun.LastGroup == group) {
			t.Fatalf("%s, which is in no group, is started without an approval of %s, which it may be one of", begun.Name, group)
		}
	}
}

func checkBounds(t *rapid.T, in Input, r reading, begun Cluster) {
	t.Helper()
	failed, group := r.failures(in, true), r.of[begun.Name]
	if s := r.strategy.Progressive; s != nil {
		limit, _ := intstr.GetScaledValueFromIntOrPercent(&s.MaxConcurrency, len(r.members), true)
		if busy := busyBeside(in, begun.Name); begun.Record.Phase != Progressing && begun.Record.Phase != RollingBack && busy >= limit {
			t.Fatalf("%s: %s is started while %d of %d are in progress", r.name, begun.Name, busy, limit)
		}
	}
	if isMandatory(mandatoryOf(r.strategy), group) {
		if failed[group] > 0 {
			t.Fatalf("%s: %s is started after a failure in its mandatory group", r.name, begun.Name)
		}
		return
	}
	n := failed[group]
	switch {
	case r.strategy.Progressive != nil:
		n = r.failedOutside(failed)
	case r.strategy.ProgressivePerGroup == nil:
		return
	}
	if n > r.mayFail(group) {
		t.Fatalf("%s: %s is started after %d failures, of which %d may be", r.name, begun.Name, n, r.mayFail(group))
	}
}

// checkInTime checks that no cluster is taken for one in progress that was not in time.
func checkInTime(t *rapid.T, in Input, r reading) {
	t.Helper()
	within := ""
	switch s := r.strategy; {
	case s.All != nil:
		within = s.All.ProgressDeadline
	case s.Progressive != nil:
		within = s.Progressive.ProgressDeadline
	case s.ProgressivePerGroup != nil:
		within = s.ProgressivePerGroup.ProgressDeadline
	}
	limit, err := time.ParseDuration(within)
	if err != nil {
		return
	}
	for _, c := range in.Clusters {
		begunNow := c.Record.Since.Equal(in.Now)
		if c.Record.Revision == in.Revision && c.Record.Phase == Progressing && !c.Held && !c.Silent && !begunNow && !in.Now.Before(c.Record.Since.Add(limit)) {
			t.Fatalf("%s: a cluster is started while %s is in progress for longer than %s", r.name, c.Name, limit)
		}
	}
}

// checkOrder checks that all groups that come before that of a cluster are through, and that the mandatory ones are proven.
func checkOrder(t *rapid.T, in Input, r reading, begun Cluster, proven func(group string) bool) {
	t.Helper()
	_, _, late := placed(in)
	mandatory, group := mandatoryOf(r.strategy), r.of[begun.Name]
	before := begunBefore(mandatory, group)
	for _, name := range before {
		if !proven(name) {
			t.Fatalf("%s: %s is started before mandatory group %s has proven the revision", r.name, begun.Name, name)
		}
	}
	if late[begun.Name] && isMandatory(mandatory, group) && slices.ContainsFunc(in.Clusters, func(c Cluster) bool {
		return r.of[c.Name] == group && !late[c.Name] && !c.Left && !(c.Record.Revision == in.Revision && c.Record.Phase == Succeeded)
	}) {
		t.Fatalf("%s: %s, which is late, is started before its mandatory group has proven the revision", r.name, begun.Name)
	}
	for _, c := range in.Clusters {
		ours := c.Record.Revision == in.Revision && !retried(in, c)
		through := ours && c.Record.Phase == Succeeded
		if slices.Contains(before, r.of[c.Name]) && !late[c.Name] && !c.Left && !through {
			t.Fatalf("%s: %s is started before %s of mandatory group %s has succeeded", r.name, begun.Name, c.Name, r.of[c.Name])
		}
		if r.strategy.ProgressivePerGroup == nil || late[c.Name] || c.Left || isMandatory(mandatory, r.of[c.Name]) || isMandatory(mandatory, group) {
			continue
		}
		passed := c.Unreachable && (r.policy == v1alpha1.UnreachableSkip || r.policy == v1alpha1.UnreachableFail)
		if r.place(c) < r.place(begun) && !passed && !through && !(ours && hasFailed(c)) {
			t.Fatalf("%s: %s is started before %s of the earlier group %q is through", r.name, begun.Name, c.Name, r.of[c.Name])
		}
	}
}

// place is where the group of a cluster comes; after all others if it is in none.
func (r reading) place(c Cluster) int {
	if at := slices.Index(r.groups, r.of[c.Name]); at >= 0 {
		return at
	}
	return len(r.groups)
}
