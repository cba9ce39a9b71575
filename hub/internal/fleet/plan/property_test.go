package plan

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var groupNames = []string{"canary", "east", "west"}

func drawStrategy(t *rapid.T) ocm.RolloutStrategy {
	c := config(time.Duration(rapid.IntRange(0, 3).Draw(t, "soak"))*time.Minute,
		rapid.SampledFrom([]string{"None", "2m", "10m"}).Draw(t, "deadline"),
		rapid.SampledFrom([]string{"0", "1", "3", "20%", "100%"}).Draw(t, "failures"))
	mandatory := rapid.SampledFrom([][]string{nil, {"canary"}, {"west", "canary"}}).Draw(t, "mandatory")
	switch rapid.IntRange(0, 2).Draw(t, "type") {
	case 0:
		return ocm.RolloutStrategy{Type: ocm.All}
	case 1:
		return inGroups(c, mandatory...)
	}
	return inSteps(rapid.SampledFrom([]string{"1", "2", "5", "30%", "100%"}).Draw(t, "concurrency"), c, mandatory...)
}

// drawInput makes a fleet in any state, also in such that the planner itself never comes to.
func drawInput(t *rapid.T) Input {
	in := Input{Strategy: drawStrategy(t), Revision: "r2", Groups: groupNames, Now: start}
	in.UnreachablePolicy = rapid.SampledFrom([]v1alpha1.UnreachablePolicy{
		"", v1alpha1.UnreachableHold, v1alpha1.UnreachableSkip, v1alpha1.UnreachableFail,
	}).Draw(t, "policy")
	for i := range rapid.IntRange(0, 9).Draw(t, "clusters") {
		c := member(fmt.Sprintf("c%d", i), rapid.SampledFrom(append([]string{""}, groupNames...)).Draw(t, "group"),
			rapid.SampledFrom([]Phase{ToApply, ToApply, Progressing, Soaking, Succeeded, Failed, TimedOut}).Draw(t, "phase"), up)
		if c.Record.Phase != ToApply && rapid.IntRange(0, 2).Draw(t, "old") == 0 {
			c.Record.Revision = "r1"
		}
		in.Clusters = append(in.Clusters, c)
	}
	if rapid.Bool().Draw(t, "begun") {
		drawSnapshot(t, &in)
	}
	return in
}

// drawSnapshot makes some clusters late, and others ones that have got another group since, and adds some that are gone.
func drawSnapshot(t *rapid.T, in *Input) {
	in.Snapshot = map[string]string{"gone": rapid.SampledFrom(groupNames).Draw(t, "group of one that is gone")}
	for i, c := range in.Clusters {
		if rapid.IntRange(0, 3).Draw(t, "late") == 0 {
			continue
		}
		in.Snapshot[c.Name] = c.Group
		if rapid.Bool().Draw(t, "relabelled") {
			in.Clusters[i].Group = rapid.SampledFrom(groupNames).Draw(t, "group now")
		}
	}
}

// placed is in with every cluster in the group on which the rollout rests, and the groups of all those that count. late are those
// that do not.
func placed(in Input) (clusters []Cluster, members map[string]string, late map[string]bool) {
	members, late = in.Snapshot, map[string]bool{}
	if members == nil {
		members = map[string]string{}
		for _, c := range in.Clusters {
			members[c.Name] = c.Group
		}
	}
	for _, c := range in.Clusters {
		if group, known := members[c.Name]; !known {
			late[c.Name] = true
		} else {
			c.Group = group
		}
		clusters = append(clusters, c)
	}
	return clusters, members, late
}

func disturb(t *rapid.T, in *Input) {
	in.Now = in.Now.Add(time.Duration(rapid.IntRange(0, 150).Draw(t, "seconds")) * time.Second)
	in.Paused = rapid.IntRange(0, 9).Draw(t, "paused") == 0
	in.NeedApproval = rapid.SampledFrom([][]string{nil, nil, {"east"}, {"canary", "west"}}).Draw(t, "unapproved")
	for i := range in.Clusters {
		in.Clusters[i].Held = rapid.IntRange(0, 5).Draw(t, "held") == 0
		in.Clusters[i].Closed = rapid.IntRange(0, 5).Draw(t, "closed") == 0
		in.Clusters[i].Unreachable = in.Clusters[i].Held && rapid.Bool().Draw(t, "unreachable")
		in.Clusters[i].Observed = rapid.SampledFrom([]Observed{up, up, down, bad, ill}).Draw(t, "observed")
	}
}

func decide(t *rapid.T, in Input) Plan {
	t.Helper()
	p, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// write carries out one change. The MachineDeployment's controller has not seen a new template yet.
func write(in *Input, change Change) {
	for i := range in.Clusters {
		c := &in.Clusters[i]
		if c.Name != change.Cluster {
			continue
		}
		c.Record = change.Record
		if change.Apply || change.RollBack {
			c.Observed.Generation++
		}
	}
}

// TestNothingIsBegunBeyondTheBounds plays any fleet, with clusters that come and go, and a hub that may die after any
// write.
func TestNothingIsBegunBeyondTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		drawRollback(t, &in)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			disturb(t, &in)
			disturbRollback(t, &in)
			p := decide(t, in)
			mayStop := stops(in, p)
			died := rapid.IntRange(0, len(p.Changes)).Draw(t, "writes")
			for _, change := range p.Changes[:died] {
				switch {
				case change.Apply:
					checkBegun(t, in, change, begunLater(in))
				case change.RollBack:
					checkRolledBack(t, in, change, mayStop)
				}
				checkHealthy(t, in, change)
				write(&in, change)
			}
			if died == len(p.Changes) && len(decide(t, in).Changes) > 0 {
				t.Fatalf("the plan changes again what it has just settled: %q, then %q", words(p), words(decide(t, in)))
			}
		}
	})
}

// checkHealthy checks that no cluster succeeds, nor starts to soak, while a condition that the fleet rests on does not hold.
func checkHealthy(t *rapid.T, in Input, change Change) {
	t.Helper()
	for _, c := range in.Clusters {
		if c.Name == change.Cluster && c.Observed.Unhealthy && (change.Record.Phase == Succeeded || change.Record.Phase == Soaking) && !c.Held {
			t.Fatalf("%s comes to %s without health", c.Name, change.Record.Phase)
		}
	}
}

func mandatoryOf(s ocm.RolloutStrategy) []ocm.MandatoryDecisionGroup {
	switch {
	case s.Progressive != nil:
		return s.Progressive.MandatoryDecisionGroups.MandatoryDecisionGroups
	case s.ProgressivePerGroup != nil:
		return s.ProgressivePerGroup.MandatoryDecisionGroups.MandatoryDecisionGroups
	}
	return nil
}

func isMandatory(mandatory []ocm.MandatoryDecisionGroup, group string) bool {
	return slices.ContainsFunc(mandatory, func(m ocm.MandatoryDecisionGroup) bool { return m.GroupName == group })
}

// begunBefore are the mandatory groups that come before a group.
func begunBefore(mandatory []ocm.MandatoryDecisionGroup, group string) []string {
	var before []string
	for _, m := range mandatory {
		if m.GroupName == group {
			break
		}
		before = append(before, m.GroupName)
	}
	return before
}

// TestARolloutEndsFromAnyStart plays fleets whose clusters have all come back and do well.
func TestARolloutEndsFromAnyStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		drawRollback(t, &in)
		for range rapid.IntRange(0, 5).Draw(t, "disturbances") {
			disturb(t, &in)
			disturbRollback(t, &in)
			for _, change := range decide(t, in).Changes {
				write(&in, change)
			}
		}
		// A user has it started again, by the current spec, and gives each mandatory group a cluster.
		in.Paused, in.Aborted, in.NeedApproval, in.RetriedAt, in.Snapshot = false, false, nil, in.Now.Add(time.Second), nil
		for i, group := range mandatoryOf(in.Strategy) {
			in.Clusters = append(in.Clusters, member(fmt.Sprintf("m%d", i), group.GroupName, ToApply, up))
		}
		for i := range in.Clusters {
			in.Clusters[i].Left, in.Clusters[i].Blocked, in.Clusters[i].Silent = false, false, false
			in.Clusters[i].Held, in.Clusters[i].Unreachable, in.Clusters[i].Closed, in.Clusters[i].Observed = false, false, false, up
		}
		for range 6*len(in.Clusters) + 1 {
			p := decide(t, in)
			for _, change := range p.Changes {
				write(&in, change)
			}
			for i := range in.Clusters {
				in.Clusters[i].Observed = up
			}
			if p.Done {
				if p.Counts[Succeeded] != len(in.Clusters) {
					t.Fatalf("done with %v", p.Counts)
				}
				return
			}
			in.Now = in.Now.Add(p.RecheckAfter)
		}
		t.Fatalf("it has no end: %+v", in)
	})
}

// TestSkippedClustersKeepNoOthersWaiting plays fleets some of whose clusters are never reached.
func TestSkippedClustersKeepNoOthersWaiting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.UnreachablePolicy = v1alpha1.UnreachableSkip
		groups, _, _ := placed(in)
		if in.Snapshot != nil {
			in.Clusters, _, _ = placed(in) // Labels that have changed may keep clusters waiting.
			groups = in.Clusters
		}
		for i, group := range mandatoryOf(in.Strategy) {
			c := member(fmt.Sprintf("m%d", i), group.GroupName, Succeeded, up)
			if in.Clusters = append(in.Clusters, c); in.Snapshot != nil {
				in.Snapshot[c.Name] = c.Group
			}
			groups = append(groups, c)
		}
		for i := range in.Clusters {
			c := &in.Clusters[i]
			c.Observed = up
			c.Unreachable = !isMandatory(mandatoryOf(in.Strategy), groups[i].Group) && rapid.Bool().Draw(t, "unreachable")
			if c.Held = c.Unreachable; c.Held && (c.Record.Phase == Failed || c.Record.Phase == TimedOut) {
				c.Record.Phase = Progressing // A failure, which may stop a rollout, is not what is skipped.
			}
		}
		for range 6*len(in.Clusters) + 1 {
			p := decide(t, in)
			for _, change := range p.Changes {
				write(&in, change)
			}
			for i := range in.Clusters {
				in.Clusters[i].Observed = up
			}
			in.Now = in.Now.Add(p.RecheckAfter)
		}
		for _, c := range in.Clusters {
			if !c.Unreachable && (c.Record.Revision != in.Revision || c.Record.Phase != Succeeded) {
				t.Fatalf("%s waits: %+v", c.Name, c.Record)
			}
		}
		if skipped := slices.ContainsFunc(in.Clusters, func(c Cluster) bool {
			return c.Unreachable && (c.Record.Revision != in.Revision || c.Record.Phase != Succeeded)
		}); skipped == decide(t, in).Done {
			t.Fatalf("skipped %t, done %t", skipped, !skipped)
		}
	})
}

// TestTheOrderOfTheInputDoesNotMatter also shows that a decision leaves its input as it was.
func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		drawRollback(t, &in)
		disturb(t, &in)
		disturbRollback(t, &in)
		before := slices.Clone(in.Clusters)
		p := decide(t, in)
		if !slices.Equal(before, in.Clusters) {
			t.Fatal("the decision changed its input")
		}
		in.Clusters = rapid.Permutation(in.Clusters).Draw(t, "order")
		if again := decide(t, in); !reflect.DeepEqual(p, again) {
			t.Fatalf("in another order the plan is another: %+v, %+v", p, again)
		}
	})
}

func FuzzAmount(f *testing.F) {
	for _, seed := range []string{"0", "7", "25%", "100%", "101%", "-1", "", "%", "1e3", "4294967295", "99999999999999999999%"} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, value string, total int) {
		total = min(max(total, 0), 1000)
		n, err := readAmount(intstr.FromString(value), total, true)
		if err == nil && n < 0 || err != nil && n != 0 {
			t.Errorf("%q of %d is %d, error %v", value, total, n, err)
		}
	})
}
