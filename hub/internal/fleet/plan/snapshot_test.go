package plan

import (
	"slices"
	"testing"

	ocm "open-cluster-management.io/api/cluster/v1alpha1"
	"pgregory.net/rapid"
)

// The snapshot has a and b in the group canary, and c, d and e in rest.
var snapshot = map[string]string{"a": "canary", "b": "canary", "c": "rest", "d": "rest", "e": "rest"}

func TestDecideWithASnapshot(t *testing.T) {
	zero := config(0, "None", "0")
	canary := func(phase Phase) []Cluster {
		return []Cluster{member("a", "canary", phase, up), member("b", "canary", phase, up)}
	}
	for name, c := range map[string]struct {
		strategy ocm.RolloutStrategy
		clusters []Cluster
		want     string
		done     bool
		breached bool
		late     []string
	}{
		"a late cluster of a later wave waits for its turn": {
			strategy: inGroups(zero), clusters: append(canary(Progressing), member("x", "rest", ToApply, up)), want: "a=Succeeded b=Succeeded x+", late: []string{"x"}},
		"not while an earlier wave is open": {
			strategy: inGroups(zero), clusters: append(canary(ToApply), member("x", "rest", ToApply, up)), want: "a+ b+", late: []string{"x"}},
		"one of the current wave takes up room": {
			strategy: inSteps("1", zero), clusters: append(canary(Succeeded), member("c", "rest", ToApply, up), member("x", "rest", Progressing, down)), late: []string{"x"}},
		"one of an earlier wave is started, and no wave waits for it": {
			strategy: inGroups(zero), clusters: append(canary(Succeeded), member("c", "rest", ToApply, up), member("x", "canary", ToApply, up)), want: "c+ x+", late: []string{"x"}},
		"one of a mandatory group waits until that has proven the revision": {
			strategy: inSteps("9", zero, "canary"), clusters: append(canary(Progressing), member("x", "canary", ToApply, up)), want: "a=Succeeded b=Succeeded x+", late: []string{"x"}},
		"and is not started before": {
			strategy: inSteps("9", zero, "canary"), clusters: append(canary(ToApply), member("x", "canary", ToApply, up)), want: "a+ b+", late: []string{"x"}},
		"its failure stops nothing": {
			strategy: inSteps("9", zero, "canary"), clusters: append(canary(Succeeded), member("c", "rest", ToApply, up), member("x", "canary", Failed, bad)), want: "c+"},
		"the rollout is complete only with it": {
			strategy: inSteps("9", zero), clusters: append(canary(Succeeded), member("x", "rest", Progressing, down)), late: []string{"x"}},
		"and is so with it": {
			strategy: inSteps("9", zero), clusters: append(canary(Succeeded), member("x", "rest", Succeeded, up)), done: true},
		"a percentage is of the snapshot, of which some have left": {
			strategy: inSteps("60%", zero), clusters: []Cluster{member("c", "rest", ToApply, up), member("d", "rest", ToApply, up), member("e", "rest", ToApply, up)}, want: "c+ d+ e+"},
		"one of failures too": {
			strategy: inGroups(config(0, "None", "34%")), clusters: []Cluster{member("c", "rest", Failed, bad), member("d", "rest", ToApply, up)}, want: "d+"},
		"and is not raised by those that are late": {
			strategy: inGroups(config(0, "None", "33%")), breached: true,
			clusters: []Cluster{member("c", "rest", Failed, bad), member("d", "rest", ToApply, up), member("x", "rest", Succeeded, up), member("y", "rest", Succeeded, up)}},
		"a cluster keeps the group that it had": {
			strategy: inGroups(zero), clusters: []Cluster{member("a", "rest", ToApply, up), member("c", "rest", ToApply, up)}, want: "a+"},
		"and has the one that it has now": {
			strategy: inGroups(zero), clusters: []Cluster{member("a", "canary", Succeeded, up), member("c", "rest", ToApply, up), member("d", "canary", ToApply, up)}, want: "d+"},
		"where both say the opposite nothing is started": {
			strategy: inGroups(zero), clusters: []Cluster{member("a", "rest", ToApply, up), member("c", "canary", ToApply, up)}},
		"without bound, late ones are started at once": {
			clusters: []Cluster{member("x", "", ToApply, up), member("y", "", ToApply, up)}, want: "x+ y+", late: []string{"x", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Decide(Input{Strategy: c.strategy, Revision: "r2", Groups: []string{"canary", "rest"}, Clusters: c.clusters, Snapshot: snapshot, Now: start})
			if err != nil {
				t.Fatal(err)
			}
			if got := words(p); got != c.want || p.Done != c.done || p.Breached != c.breached || !slices.Equal(p.Late, c.late) {
				t.Errorf("changes %q, done %t, breached %t, late %v; want %q, %t, %t, %v", got, p.Done, p.Breached, p.Late, c.want, c.done, c.breached, c.late)
			}
		})
	}
}

// Whichever clusters join in the middle of a rollout, the current wave and what stops it are the same.
func TestLateClustersChangeNoWave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		drawSnapshot(t, &in)
		disturb(t, &in)
		_, _, late := placed(in)
		for _, group := range mandatoryOf(in.Strategy) { // Otherwise those that are late have to prove the revision.
			c := member("proof-"+group.GroupName, group.GroupName, Succeeded, up)
			in.Clusters, in.Snapshot[c.Name] = append(in.Clusters, c), c.Group
		}
		without := in
		without.Clusters = slices.DeleteFunc(slices.Clone(in.Clusters), func(c Cluster) bool { return late[c.Name] })
		all, alone := decide(t, in), decide(t, without)
		if alone.Wave != all.Wave || alone.Breached != all.Breached {
			t.Fatalf("wave %d, breached %t, and without %v: wave %d, breached %t", all.Wave, all.Breached, late, alone.Wave, alone.Breached)
		}
	})
}
