package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/seeds"
)

// world is a fleet from its first rollout on. Whoever may edit anything does so at any moment.
type world struct {
	in Input
	// approval are the groups that need an approval, and given are the approvals that there are, also those of other fleets, templates
	// and rollouts.
	approval []string
	given    []Approval
	// kept is what a hub stores of each rollout: nothing else is left after a restart. run counts the rollouts.
	kept *keptRun
	// proven are the promised mandatory groups that have been seen to prove the revision in this rollout.
	proven map[string]bool
	joined int
}

type keptRun struct {
	Revision  string
	RetriedAt time.Time
	Snapshot  map[string]string
	Promise   Promise
}

var edits = map[string]func(*rapid.T, *world){
	"rename a group": func(t *rapid.T, w *world) {
		if len(w.in.Groups) == 0 {
			return
		}
		i := rapid.IntRange(0, len(w.in.Groups)-1).Draw(t, "which")
		old, name := w.in.Groups[i], w.name(t)
		if slices.Contains(w.in.Groups, name) {
			return
		}
		w.in.Groups[i] = name
		w.regroup(old, name)
		if rapid.Bool().Draw(t, "it needs an approval as before") {
			w.approval = replaced(w.approval, old, name)
		}
		w.mandate(replaced(names(w.in), old, name))
	},
	"add a group": func(t *rapid.T, w *world) {
		name := w.name(t)
		if slices.Contains(w.in.Groups, name) {
			return
		}
		w.in.Groups = slices.Insert(w.in.Groups, rapid.IntRange(0, len(w.in.Groups)).Draw(t, "at"), name)
		for i := range w.in.Clusters {
			if rapid.IntRange(0, 3).Draw(t, "moves") == 0 {
				w.in.Clusters[i].Group = name
			}
		}
		if rapid.Bool().Draw(t, "mandatory") {
			w.mandate(append(names(w.in), name))
		}
		if rapid.Bool().Draw(t, "approval") {
			w.approval = append(w.approval, name)
		}
	},
	"remove a group": func(t *rapid.T, w *world) {
		if len(w.in.Groups) == 0 {
			return
		}
		name := rapid.SampledFrom(w.in.Groups).Draw(t, "which")
		w.in.Groups = replaced(w.in.Groups, name, "")
		w.approval = replaced(w.approval, name, "")
		w.mandate(replaced(names(w.in), name, ""))
		w.regroup(name, "")
	},
	"empty a group": func(t *rapid.T, w *world) {
		if len(w.in.Groups) > 0 {
			w.regroup(rapid.SampledFrom(w.in.Groups).Draw(t, "which"), rapid.SampledFrom(append([]string{""}, w.in.Groups...)).Draw(t, "into"))
		}
	},
	"reorder the groups": func(t *rapid.T, w *world) {
		if len(w.in.Groups) > 0 {
			w.in.Groups = rapid.Permutation(w.in.Groups).Draw(t, "groups")
		}
	},
	"other mandatory groups": func(t *rapid.T, w *world) {
		if len(w.in.Groups) > 0 {
			w.mandate(rapid.Permutation(w.in.Groups).Draw(t, "order")[:rapid.IntRange(0, len(w.in.Groups)).Draw(t, "how many")])
		}
	},
	"another strategy": func(t *rapid.T, w *world) {
		mandatory := names(w.in)
		w.in.Strategy = drawStrategy(t)
		w.mandate(mandatory)
	},
	"groups that need an approval": func(t *rapid.T, w *world) {
		w.approval = nil
		for _, group := range w.in.Groups {
			if rapid.IntRange(0, 2).Draw(t, "needs it") == 0 {
				w.approval = append(w.approval, group)
			}
		}
	},
	"an approval is given": func(t *rapid.T, w *world) {
		for _, group := range w.in.Groups {
			if rapid.IntRange(0, 3).Draw(t, "has it") > 0 {
				w.given = append(w.given, Approval{Fleet: w.in.Fleet, Revision: w.in.Revision, Rollout: w.in.Rollout, Group: group})
			}
		}
	},
	"an approval is taken back": func(t *rapid.T, w *world) {
		if len(w.given) > 0 {
			i := rapid.IntRange(0, len(w.given)-1).Draw(t, "which")
			w.given = slices.DeleteFunc(slices.Clone(w.given), func(a Approval) bool { return a == w.given[i] })
		}
	},
	"an approval of something else": func(t *rapid.T, w *world) {
		w.given = append(w.given, Approval{
			Fleet:    rapid.SampledFrom([]string{w.in.Fleet, "another", ""}).Draw(t, "fleet"),
			Revision: rapid.SampledFrom([]string{"r1", "r2", "r3", "r4", ""}).Draw(t, "revision"),
			Rollout:  int64(rapid.IntRange(0, int(w.in.Rollout)).Draw(t, "rollout")),
			Group:    rapid.SampledFrom([]string{"canary", "east", "west", "pilot", "prod", ""}).Draw(t, "group"),
		})
	},
	"a label": func(t *rapid.T, w *world) {
		if len(w.in.Clusters) > 0 {
			i := rapid.IntRange(0, len(w.in.Clusters)-1).Draw(t, "of")
			w.in.Clusters[i].Group = rapid.SampledFrom(append([]string{""}, w.in.Groups...)).Draw(t, "group")
			w.in.Clusters[i].PromisedGroup = w.promisedGroup(t)
		}
	},
	"a cluster joins": func(t *rapid.T, w *world) {
		w.joined++
		w.in.Clusters = append(w.in.Clusters, Cluster{
			Name: fmt.Sprintf("n%d", w.joined), Group: rapid.SampledFrom(append([]string{""}, w.in.Groups...)).Draw(t, "group"), Observed: up,
			PromisedGroup: w.promisedGroup(t),
		})
	},
	"a cluster is deleted": func(t *rapid.T, w *world) {
		if len(w.in.Clusters) > 0 {
			i := rapid.IntRange(0, len(w.in.Clusters)-1).Draw(t, "which")
			w.in.Clusters = slices.Delete(slices.Clone(w.in.Clusters), i, i+1)
		}
	},
	"another template": func(t *rapid.T, w *world) {
		if revision := fmt.Sprintf("r%d", rapid.IntRange(2, 4).Draw(t, "revision")); revision != w.in.Revision {
			w.in.Revision = revision
			w.in.Rollout++
		}
	},
	"a retry": func(_ *rapid.T, w *world) {
		w.in.RetriedAt = w.in.Now
		w.in.Rollout++
	},
	"a deadline": func(t *rapid.T, w *world) {
		deadline := rapid.SampledFrom([]string{"None", "1m", "5m", "2h"}).Draw(t, "deadline")
		s := &w.in.Strategy
		switch {
		case s.All != nil:
			s.All = &ocm.RolloutAll{RolloutConfig: ocm.RolloutConfig{ProgressDeadline: deadline}}
		case s.Progressive != nil:
			p := *s.Progressive
			p.ProgressDeadline, s.Progressive = deadline, &p
		case s.ProgressivePerGroup != nil:
			p := *s.ProgressivePerGroup
			p.ProgressDeadline, s.ProgressivePerGroup = deadline, &p
		}
	},
	"a policy for unreachable clusters": func(t *rapid.T, w *world) {
		w.in.UnreachablePolicy = rapid.SampledFrom([]v1alpha1.UnreachablePolicy{v1alpha1.UnreachableHold, v1alpha1.UnreachableSkip, v1alpha1.UnreachableFail}).Draw(t, "unreachable")
	},
	"a policy for rollbacks": func(t *rapid.T, w *world) {
		w.in.RollbackPolicy = rapid.SampledFrom([]v1alpha1.RollbackPolicy{v1alpha1.RollbackNone, v1alpha1.RollbackFailed, v1alpha1.RollbackAll}).Draw(t, "rollback")
	},
}

func replaced(names []string, old, name string) []string {
	var all []string
	for _, n := range names {
		if n == old {
			n = name
		}
		if n != "" && !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

func names(in Input) []string {
	var all []string
	for _, m := range mandatoryOf(in.Strategy) {
		all = append(all, m.GroupName)
	}
	return all
}

func (w *world) name(t *rapid.T) string {
	return rapid.SampledFrom([]string{"canary", "east", "west", "pilot", "prod"}).Draw(t, "name")
}

func (w *world) regroup(old, name string) {
	for i := range w.in.Clusters {
		if w.in.Clusters[i].Group == old {
			w.in.Clusters[i].Group = name
		}
	}
}

// promisedGroup is a group by the selectors that were promised, which may have been edited since; nil if an older hub has kept none.
func (w *world) promisedGroup(t *rapid.T) *string {
	groups := []string{""}
	if w.kept != nil {
		groups = append(groups, w.kept.Promise.Groups...)
	}
	if rapid.IntRange(0, 4).Draw(t, "by an older hub") == 0 {
		return nil
	}
	return new(rapid.SampledFrom(groups).Draw(t, "promised group"))
}

// mandate makes groups mandatory, in their order, without those that there are not.
func (w *world) mandate(groups []string) {
	groups = slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return !slices.Contains(w.in.Groups, g) })
	s := &w.in.Strategy
	switch {
	case s.Progressive != nil:
		p := *s.Progressive
		p.MandatoryDecisionGroups, s.Progressive = first(groups...), &p
	case s.ProgressivePerGroup != nil:
		p := *s.ProgressivePerGroup
		p.MandatoryDecisionGroups, s.ProgressivePerGroup = first(groups...), &p
	}
}

// read gives the planner what a hub reads that has just been started.
func (w *world) read() Input {
	in := w.in
	in.Clusters = slices.Clone(in.Clusters)
	in.NeedApproval, in.Approvals = w.approval, slices.Clone(w.given)
	in.Snapshot, in.Promise = nil, nil
	if w.kept != nil && w.kept.Revision == in.Revision && w.kept.RetriedAt.Equal(in.RetriedAt) && in.Begun() {
		in.Snapshot, in.Promise = w.kept.Snapshot, &w.kept.Promise
	}
	return in
}

// keep stores what is promised, before the first cluster is started.
func (w *world) keep(t *rapid.T, in Input) {
	if in.Snapshot != nil {
		return
	}
	text, err := json.Marshal(keptRun{Revision: in.Revision, RetriedAt: in.RetriedAt, Snapshot: groupsNow(in.Clusters), Promise: Promise{
		Since: in.Now, Strategy: in.Strategy, Groups: in.Groups, Approval: w.approval, UnreachablePolicy: in.UnreachablePolicy,
	}})
	w.kept, w.proven = &keptRun{}, map[string]bool{}
	if err != nil || json.Unmarshal(text, w.kept) != nil {
		t.Fatal("it cannot be kept")
	}
	// What has proven the revision until now counts, also if it is gone when the hub looks next.
	in.Snapshot, in.Promise = w.kept.Snapshot, &w.kept.Promise
	w.note(in)
}

// note remembers which promised groups have proven the revision.
func (w *world) note(in Input) {
	if both := readings(in); len(both) > 1 {
		for _, m := range mandatoryOf(both[1].strategy) {
			w.proven[m.GroupName] = w.proven[m.GroupName] || both[1].hasProof(in, m.GroupName)
		}
	}
}

// report lets clusters say and be what they like.
func (w *world) report(t *rapid.T) {
	disturb(t, &w.in)
	if rapid.IntRange(0, 4).Draw(t, "a long time") == 0 {
		w.in.Now = w.in.Now.Add(15 * time.Minute)
	}
	w.in.Deleting = rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "deleting")
	w.in.Aborted = rapid.IntRange(0, 9).Draw(t, "aborted") == 0
	empty := Observed{Generation: 2, ObservedGeneration: 2}
	for i := range w.in.Clusters {
		c := &w.in.Clusters[i]
		c.Observed = rapid.SampledFrom([]Observed{up, up, up, up, up, up, up, down, down, bad, empty}).Draw(t, "says")
		c.Left = rapid.IntRange(0, 9).Draw(t, "left") == 0
		c.Silent = rapid.IntRange(0, 9).Draw(t, "silent") == 0
	}
}

func newWorld(t *rapid.T) *world {
	w := &world{proven: map[string]bool{}, in: Input{Fleet: "uid", Rollout: 1, Revision: "r2", Groups: slices.Clone(groupNames), Now: start}}
	w.in.Strategy = drawStrategy(t)
	for i := range rapid.IntRange(1, 7).Draw(t, "clusters") {
		c := Cluster{Name: fmt.Sprintf("c%d", i), Group: rapid.SampledFrom(append([]string{""}, groupNames...)).Draw(t, "group"), Observed: up}
		if rapid.Bool().Draw(t, "has a template") {
			c.Record = Record{Revision: "r1", Phase: Succeeded, Since: start}
		}
		w.in.Clusters = append(w.in.Clusters, c)
	}
	if rapid.IntRange(0, 2).Draw(t, "with approvals") == 0 {
		edits["groups that need an approval"](t, w)
	}
	return w
}

// TestNoEditOpensAGate plays fleets in whose rollouts anything is edited, and hubs that may die after any write. No cluster is started
// unless the spec as it is now allows it, and the one with which the rollout was started does.
// Claim: No start without both the current spec and the promise allowing it. Broken: only the current spec is read; only the promised one is; no proof is asked for. Also: TestNothingIsBegunBeyondTheBounds; hub/internal/fleet TestAnEditNeedsTheApprovalThatWasPromised, TestAnEditLeavesTheCanaryAhead, TestAnAddedGateHolds, TestBoundsAreNotRaisedInTheMiddle.
func TestNoEditOpensAGate(t *testing.T) {
	seeds.UseMany(t, 2500)
	kinds := slices.Sorted(maps.Keys(edits))
	begun, changed, unproven := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "edits") {
				edits[rapid.SampledFrom(kinds).Draw(t, "edit")](t, w)
			}
			w.report(t)
			in := w.read()
			p, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			w.note(in)
			changed, unproven = changed+len(p.Changed), unproven+len(p.Unproven)
			for _, change := range p.Changes[:rapid.IntRange(0, len(p.Changes)).Draw(t, "writes")] {
				if change.Apply {
					begun++
					checkBegun(t, in, change, func(group string) bool { return w.proven[group] })
					w.keep(t, in)
				}
				for i := range w.in.Clusters {
					if change.Apply && w.in.Clusters[i].Name == change.Cluster {
						w.in.Clusters[i].LastGroup = w.in.Clusters[i].Group
					}
				}
				write(&w.in, change)
				write(&in, change)
				w.note(in)
			}
		}
	})
	t.Logf("%d clusters were started, %d waited for an edit, %d groups had no proof", begun, changed, unproven)
	if begun == 0 || changed == 0 || unproven == 0 {
		t.Error("it shows nothing")
	}
}
