package plan

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// drawRollback adds what rollbacks, aborts and retries make of a fleet.
func drawRollback(t *rapid.T, in *Input) {
	in.RollbackPolicy = rapid.SampledFrom([]v1alpha1.RollbackPolicy{
		"", v1alpha1.RollbackNone, v1alpha1.RollbackFailed, v1alpha1.RollbackAll,
	}).Draw(t, "rollback")
	for i := range in.Clusters {
		c := &in.Clusters[i]
		if c.Record.Phase == ToApply {
			continue
		}
		c.Record.Previous = rapid.SampledFrom([]string{"", "r0", "r0", "r0"}).Draw(t, "previous")
		if c.Record.Previous != "" {
			c.Record.Phase = rapid.SampledFrom([]Phase{c.Record.Phase, c.Record.Phase, RollingBack, RolledBack, RollbackFailed}).Draw(t, "rolled back")
		}
		c.PreviousLost = rapid.IntRange(0, 9).Draw(t, "lost") == 0
	}
}

// disturbRollback lets a user and a fleet do what matters to rollbacks.
func disturbRollback(t *rapid.T, in *Input) {
	in.Aborted = rapid.IntRange(0, 5).Draw(t, "aborted") == 0
	if rapid.IntRange(0, 5).Draw(t, "retry") == 0 {
		in.RetriedAt = in.Now
	}
	for i := range in.Clusters {
		in.Clusters[i].Left = rapid.IntRange(0, 9).Draw(t, "left") == 0
		in.Clusters[i].Blocked = rapid.IntRange(0, 9).Draw(t, "blocked") == 0
		in.Clusters[i].Silent = rapid.IntRange(0, 9).Draw(t, "silent") == 0
	}
}

func isRolledBack(c Cluster) bool {
	return slices.Contains([]Phase{RollingBack, RolledBack, RollbackFailed}, c.Record.Phase)
}

func hasFailed(c Cluster) bool {
	return isRolledBack(c) || c.Record.Phase == Failed || c.Record.Phase == TimedOut
}

// retried reports whether a failure is older than the last time that a user wanted it to be tried again.
func retried(in Input, c Cluster) bool {
	return !in.Aborted && hasFailed(c) && !in.RetriedAt.IsZero() && !c.Record.Retried.Equal(in.RetriedAt)
}

// stops reports whether a plan may roll anything back: the revision is aborted, a cluster was rolled back, or more clusters of some
// group have failed by what they reported, after what the plan says of them, than may.
func stops(in Input, p Plan) bool {
	for i := range in.Clusters {
		for _, change := range p.Changes {
			if c := in.Clusters[i]; change.Cluster == c.Name && !change.Apply {
				if c.Record = change.Record; change.RollBack {
					c.Record.Phase = change.From
				}
				in.Clusters = slices.Clone(in.Clusters)
				in.Clusters[i] = c
			}
		}
		c := in.Clusters[i]
		if in.Aborted || c.Record.Revision == in.Revision && isRolledBack(c) && !c.Left && !retried(in, c) {
			return true
		}
	}
	return slices.ContainsFunc(readings(in), func(r reading) bool {
		failed := r.failures(in, false)
		for group, n := range failed {
			if isMandatory(mandatoryOf(r.strategy), group) && n > 0 || !isMandatory(mandatoryOf(r.strategy), group) && r.strategy.ProgressivePerGroup != nil && n > r.mayFail(group) {
				return true
			}
		}
		return r.strategy.Progressive != nil && r.failedOutside(failed) > r.mayFail("")
	})
}

// outlook is what a cluster comes to by what it reports now, if nothing is started there.
func outlook(in Input, c Cluster) Phase {
	phase, since := c.Record.Phase, c.Record.Since
	var soak time.Duration
	deadline := ""
	switch {
	case in.Strategy.Progressive != nil:
		soak, deadline = in.Strategy.Progressive.MinSuccessTime.Duration, in.Strategy.Progressive.ProgressDeadline
	case in.Strategy.ProgressivePerGroup != nil:
		soak, deadline = in.Strategy.ProgressivePerGroup.MinSuccessTime.Duration, in.Strategy.ProgressivePerGroup.ProgressDeadline
	}
	switch {
	case phase == Succeeded:
		return Succeeded
	case c.Observed.isHealthy():
		if phase == Soaking && !c.Record.Held {
			soak -= in.Now.Sub(since)
		}
		if soak <= 0 {
			return Succeeded
		}
		return Soaking
	case hasFailed(c):
		return phase
	case c.Record.Held || phase == Soaking:
		since = in.Now
	}
	limit, err := time.ParseDuration(deadline)
	o := c.Observed
	reported := o.Failing && o.isCurrent() && (!o.FailingSince.Before(since.Truncate(time.Second)) || in.Now.Sub(since) >= o.Deadline)
	if reported || err == nil && in.Now.Sub(since) >= limit {
		return Failed
	}
	return Progressing
}

// checkRolledBack checks one rollback as checkBegun does a start.
func checkRolledBack(t *rapid.T, in Input, change Change, mayStop bool) {
	t.Helper()
	busy := busyBeside(in, change.Cluster)
	_, members, _ := placed(in)
	back := in.Clusters[slices.IndexFunc(in.Clusters, func(c Cluster) bool { return c.Name == change.Cluster })]
	phase := outlook(in, back)
	switch policy := in.RollbackPolicy; {
	case in.Paused || back.Held || back.Silent || back.Blocked || back.Left || back.Record.Revision != in.Revision || isRolledBack(back):
		t.Fatalf("%s is rolled back: paused %t, %+v", back.Name, in.Paused, back)
	case back.Record.Previous == "" || back.PreviousLost || change.Record.Previous != back.Record.Previous:
		t.Fatalf("%s is rolled back to nothing: %+v, %+v", back.Name, back.Record, change.Record)
	case policy != v1alpha1.RollbackAll && (policy != v1alpha1.RollbackFailed || phase != Failed && phase != TimedOut):
		t.Fatalf("%s, which is %s, is rolled back with policy %q", back.Name, phase, policy)
	case back.Closed && phase == Succeeded:
		t.Fatalf("%s is well, and rolled back outside of its window", back.Name)
	case !mayStop:
		t.Fatalf("%s is rolled back without a reason: %+v", back.Name, in)
	case in.Strategy.Progressive != nil && phase != Progressing: // That has its place, whatever the bound is now.
		limit, _ := intstr.GetScaledValueFromIntOrPercent(&in.Strategy.Progressive.MaxConcurrency, len(members), true)
		if busy >= limit {
			t.Fatalf("%s, which is %s, is rolled back while %d of %d are in progress", back.Name, phase, busy, limit)
		}
	}
}

// TestAStoppedRolloutIsRolledBackFromAnyStart plays fleets whose rollout a user aborts, or is breached by clusters that stay
// broken with the revision, and a hub that may die after any write.
func TestAStoppedRolloutIsRolledBackFromAnyStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.RollbackPolicy = v1alpha1.RollbackAll
		for i := range in.Clusters {
			if in.Clusters[i].Record.Phase != ToApply {
				in.Clusters[i].Record.Previous = rapid.SampledFrom([]string{"", "r0", "r0"}).Draw(t, "previous")
			}
		}
		in.Aborted = true
		if rapid.Bool().Draw(t, "breached") && len(in.Clusters) > 0 && in.Strategy.Type != ocm.All {
			in.Aborted = false
			broken := &in.Clusters[rapid.IntRange(0, len(in.Clusters)-1).Draw(t, "broken")]
			if in.Snapshot != nil {
				in.Snapshot[broken.Name] = broken.Group // Or its failure would stop nothing.
			}
			broken.Record = Record{Revision: "r2", Phase: Failed, Since: start, Previous: "r0"}
			broken.Observed = bad
			in.Strategy = rapid.SampledFrom([]ocm.RolloutStrategy{
				inSteps("1", config(0, "None", "0"), "canary"), inSteps("2", config(time.Minute, "10m", "0")), inGroups(config(0, "None", "0"), "west"),
			}).Draw(t, "strategy")
		}
		for range 4*len(in.Clusters) + 9 {
			p := decide(t, in)
			mayStop := stops(in, p)
			for _, change := range p.Changes[:rapid.IntRange(min(1, len(p.Changes)), len(p.Changes)).Draw(t, "writes")] {
				if change.Apply && (in.Aborted || p.Stopped) {
					t.Fatalf("%s is started", change.Cluster)
				}
				if change.RollBack {
					checkRolledBack(t, in, change, mayStop)
				}
				write(&in, change)
			}
			for i := range in.Clusters {
				if in.Clusters[i].Record.Phase != Failed {
					in.Clusters[i].Observed = up
				}
			}
			in.Now = in.Now.Add(time.Minute)
		}
		p := decide(t, in)
		if !in.Aborted && !p.Stopped {
			return // The broken cluster is in a wave that is not reached yet.
		}
		for _, c := range in.Clusters {
			if c.Record.Revision == in.Revision && c.Record.Previous != "" && c.Record.Phase != RolledBack {
				t.Fatalf("%s is %s: %+v, plan %+v", c.Name, c.Record.Phase, c.Record, p)
			}
		}
		if len(p.ToRollBack) > 0 || len(p.Changes) > 0 || p.Done {
			t.Fatalf("it has no end: %+v", p)
		}
	})
}
