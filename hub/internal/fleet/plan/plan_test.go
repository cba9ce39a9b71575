package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func config(soak time.Duration, deadline, failures string) ocm.RolloutConfig {
	return ocm.RolloutConfig{
		MinSuccessTime: metav1.Duration{Duration: soak}, ProgressDeadline: deadline, MaxFailures: intstr.Parse(failures),
	}
}

func first(groups ...string) (m ocm.MandatoryDecisionGroups) {
	for _, group := range groups {
		m.MandatoryDecisionGroups = append(m.MandatoryDecisionGroups, ocm.MandatoryDecisionGroup{GroupName: group})
	}
	return m
}

func inSteps(concurrency string, c ocm.RolloutConfig, mandatory ...string) ocm.RolloutStrategy {
	return ocm.RolloutStrategy{Type: ocm.Progressive, Progressive: &ocm.RolloutProgressive{
		RolloutConfig: c, MandatoryDecisionGroups: first(mandatory...), MaxConcurrency: intstr.Parse(concurrency),
	}}
}

func inGroups(c ocm.RolloutConfig, mandatory ...string) ocm.RolloutStrategy {
	return ocm.RolloutStrategy{Type: ocm.ProgressivePerGroup, ProgressivePerGroup: &ocm.RolloutProgressivePerGroup{
		RolloutConfig: c, MandatoryDecisionGroups: first(mandatory...),
	}}
}

var (
	up   = Observed{Generation: 2, ObservedGeneration: 2, Desired: 3, Replicas: 3, Updated: 3, Available: 3}
	down = Observed{Generation: 2, ObservedGeneration: 2, Desired: 3, Replicas: 3, Updated: 1, Available: 2}
	ill  = Observed{Generation: 2, ObservedGeneration: 2, Desired: 3, Replicas: 3, Updated: 3, Available: 3, Unhealthy: true}
	bad  = Observed{Generation: 2, ObservedGeneration: 2, Desired: 3, Replicas: 3, Updated: 1, Available: 2, Failing: true}
)

// member is a cluster at a phase of revision r2 that started an hour ago.
func member(name, group string, phase Phase, observed Observed) Cluster {
	c := Cluster{Name: name, Group: group, Observed: observed}
	if phase != ToApply {
		c.Record = Record{Revision: "r2", Phase: phase, Since: start.Add(-time.Hour)}
	}
	return c
}

func held(c Cluster) Cluster { c.Held = true; return c }

func unreachable(c Cluster) Cluster { c.Unreachable = true; return held(c) }

func closed(c Cluster) Cluster { c.Closed = true; return c }

func ofRevision(revision string, c Cluster) Cluster { c.Record.Revision = revision; return c }

// words says what a plan changes: "a+" for a cluster that is started, "a<" for one that is rolled back, "a=Phase" for another
// change.
func words(p Plan) string {
	var all []string
	for _, c := range p.Changes {
		switch {
		case c.Apply:
			all = append(all, c.Cluster+"+")
		case c.RollBack:
			all = append(all, c.Cluster+"<")
		default:
			all = append(all, c.Cluster+"="+string(c.Record.Phase))
		}
	}
	return strings.Join(all, " ")
}

func TestDecide(t *testing.T) {
	zero := config(0, "None", "0")
	groups := []string{"canary", "rest"}
	four := []Cluster{member("d", "rest", ToApply, up), member("a", "rest", ToApply, up), member("c", "canary", ToApply, up), member("b", "rest", ToApply, up)}
	with := func(c ...Cluster) []Cluster {
		return append(c, member("x", "rest", ToApply, up), member("y", "rest", ToApply, up))
	}
	cases := []struct {
		name     string
		strategy ocm.RolloutStrategy
		clusters []Cluster
		paused   bool
		policy   v1alpha1.UnreachablePolicy
		awaits   []string // groups
		want     string
		done     bool
		breached bool
	}{
		{name: "all at once", clusters: four, want: "a+ b+ c+ d+"},
		{name: "none while paused", clusters: four, paused: true},
		{name: "as many as allowed, by name", strategy: inSteps("2", zero), clusters: four, want: "a+ b+"},
		{name: "a percentage is rounded up", strategy: inSteps("26%", zero), clusters: four, want: "a+ b+"},
		{name: "the mandatory group first", strategy: inSteps("2", zero, "canary"), clusters: four, want: "c+"},
		{name: "the bound holds in a mandatory group", strategy: inSteps("2", zero, "rest"), clusters: four, want: "a+ b+"},
		{name: "group by group", strategy: inGroups(zero), clusters: four, want: "c+"},
		{name: "a mandatory group before an earlier one", strategy: inGroups(zero, "rest"), clusters: four, want: "a+ b+ d+"},
		{name: "a cluster in no group comes last", strategy: inGroups(zero), clusters: []Cluster{member("a", "", ToApply, up), member("b", "rest", ToApply, up)}, want: "b+"},
		{name: "health makes room", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Progressing, up)), want: "a=Succeeded x+"},
		{name: "an old report does not", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Progressing, Observed{Generation: 3, ObservedGeneration: 2})), want: ""},
		{name: "an old replica does not", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Progressing, Observed{Desired: 3, Replicas: 4, Updated: 3, Available: 3})), want: ""},
		{name: "the soak starts with health", strategy: inSteps("1", config(time.Minute, "None", "0")), clusters: with(member("a", "rest", Progressing, up)), want: "a=Soaking"},
		{name: "the soak is over", strategy: inSteps("1", config(time.Hour, "None", "0")), clusters: with(member("a", "rest", Soaking, up)), want: "a=Succeeded x+"},
		{name: "the soak is not over", strategy: inSteps("1", config(2*time.Hour, "None", "0")), clusters: with(member("a", "rest", Soaking, up))},
		{name: "health lost in the soak", strategy: inSteps("1", config(2*time.Hour, "None", "0")), clusters: with(member("a", "rest", Soaking, down)), want: "a=Progressing"},
		{name: "a condition that does not hold", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Progressing, ill))},
		{name: "a condition lost in the soak", strategy: inSteps("1", config(2*time.Hour, "None", "0")), clusters: with(member("a", "rest", Soaking, ill)), want: "a=Progressing"},
		{name: "a condition lost after it", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Succeeded, ill)), want: "x+"},
		{name: "a condition that never holds", strategy: inSteps("1", config(0, "1h", "0")), clusters: with(member("a", "rest", Progressing, ill)), want: "a=TimedOut", breached: true},
		{name: "a failed cluster without its condition", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Failed, ill)), breached: true},
		{name: "a condition does not matter before the start", clusters: []Cluster{member("a", "rest", ToApply, ill)}, want: "a+"},
		{name: "health lost after it", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Succeeded, down)), want: "x+"},
		{name: "a failure stops", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Progressing, bad)), want: "a=Failed", breached: true},
		{name: "a failure that may be", strategy: inSteps("1", config(0, "None", "1")), clusters: with(member("a", "rest", Progressing, bad)), want: "a=Failed x+"},
		{name: "a failure that comes last by name stops too", strategy: inSteps("1", zero), clusters: with(member("z", "rest", Failed, bad)), breached: true},
		{name: "no failure in a mandatory group", strategy: inSteps("1", config(0, "None", "9"), "canary"), clusters: with(member("a", "canary", TimedOut, down)), breached: true},
		{name: "a percentage of failures is rounded down", strategy: inSteps("1", config(0, "None", "33%")), clusters: with(member("a", "rest", Failed, down)), breached: true},
		{name: "the deadline", strategy: inSteps("1", config(0, "1h", "0")), clusters: with(member("a", "rest", Progressing, down)), want: "a=TimedOut", breached: true},
		{name: "a failed cluster recovers", strategy: inSteps("1", zero), clusters: with(member("a", "rest", Failed, up)), want: "a=Succeeded x+"},
		{name: "nothing is started in a held cluster", strategy: inSteps("1", zero), clusters: with(held(member("a", "rest", ToApply, up))), want: "x+"},
		{name: "a held cluster keeps its wave open", strategy: inSteps("1", zero, "canary"), clusters: with(held(member("a", "canary", ToApply, up)))},
		{name: "Hold: an unreachable cluster keeps its place", strategy: inSteps("1", zero), clusters: with(unreachable(member("a", "rest", Progressing, up))), want: "a=Progressing"},
		{name: "Skip: it takes up no room", policy: v1alpha1.UnreachableSkip, strategy: inSteps("1", zero), clusters: with(unreachable(member("a", "rest", Progressing, up))), want: "a=Progressing x+"},
		{name: "Skip: its wave passes", policy: v1alpha1.UnreachableSkip, strategy: inGroups(zero), clusters: with(unreachable(member("a", "canary", ToApply, up))), want: "x+ y+"},
		{name: "Skip: a mandatory group's does not", policy: v1alpha1.UnreachableSkip, strategy: inSteps("1", zero, "canary"), clusters: with(unreachable(member("a", "canary", ToApply, up)))},
		{name: "Skip: the rollout is not done without it", policy: v1alpha1.UnreachableSkip, strategy: inSteps("1", zero), clusters: []Cluster{unreachable(member("a", "rest", ToApply, up)), member("b", "rest", Succeeded, up)}},
		{name: "Skip: it is back", policy: v1alpha1.UnreachableSkip, strategy: inSteps("1", zero), clusters: []Cluster{member("a", "rest", ToApply, up), member("b", "rest", Succeeded, up)}, want: "a+"},
		{name: "Skip: held by a user is not skipped", policy: v1alpha1.UnreachableSkip, strategy: inSteps("1", zero), clusters: with(held(member("a", "rest", Progressing, up))), want: "a=Progressing"},
		{name: "Fail: it is a failure", policy: v1alpha1.UnreachableFail, strategy: inSteps("1", zero), clusters: with(unreachable(member("a", "rest", ToApply, up))), breached: true},
		{name: "Fail: one that may be", policy: v1alpha1.UnreachableFail, strategy: inSteps("1", config(0, "None", "1")), clusters: with(unreachable(member("a", "rest", Progressing, up))), want: "a=Progressing x+"},
		{name: "Fail: none may be in a mandatory group", policy: v1alpha1.UnreachableFail, strategy: inSteps("1", config(0, "None", "9"), "canary"), clusters: with(unreachable(member("a", "canary", ToApply, up))), breached: true},
		{name: "Fail: not one that has succeeded", policy: v1alpha1.UnreachableFail, strategy: inSteps("1", zero), clusters: with(unreachable(member("a", "rest", Succeeded, up))), want: "x+"},
		{name: "Fail: it is back", policy: v1alpha1.UnreachableFail, strategy: inSteps("1", zero), clusters: with(member("a", "rest", ToApply, up)), want: "a+"},
		{name: "an unapproved group waits, others of its wave do not", awaits: []string{"canary"}, strategy: inSteps("1", zero), clusters: with(member("a", "canary", ToApply, up)), want: "x+"},
		{name: "a later wave waits with it", awaits: []string{"canary"}, strategy: inGroups(zero), clusters: with(member("a", "canary", ToApply, up))},
		{name: "what has started is followed", awaits: []string{"canary"}, strategy: inGroups(zero), clusters: with(member("a", "canary", Progressing, up)), want: "a=Succeeded x+ y+"},
		{name: "a closed cluster is not started", strategy: inSteps("1", zero), clusters: with(closed(member("a", "rest", ToApply, up))), want: "x+"},
		{name: "its wave waits for it", strategy: inGroups(zero), clusters: with(closed(member("a", "canary", ToApply, up)))},
		{name: "what has started in it is followed", strategy: inSteps("1", zero), clusters: with(closed(member("a", "rest", Progressing, up))), want: "a=Succeeded x+"},
		{name: "in progress with the one before and closed: it keeps its place", strategy: inSteps("1", zero), clusters: with(closed(ofRevision("r1", member("z", "rest", Progressing, down))))},
		{name: "what a held cluster reports does not count", strategy: inSteps("1", config(0, "1m", "0")), clusters: with(held(member("a", "rest", Progressing, up))), want: "a=Progressing"},
		{name: "another revision is started over", strategy: inSteps("1", zero), clusters: []Cluster{ofRevision("r1", member("a", "rest", Succeeded, up))}, want: "a+"},
		{name: "in progress with the one before: first, and in its place", strategy: inSteps("1", zero), clusters: with(ofRevision("r1", member("z", "rest", Progressing, down))), want: "z+"},
		{name: "in progress with the one before and held: it keeps its place", strategy: inSteps("1", zero), clusters: with(held(ofRevision("r1", member("z", "rest", Progressing, down)))), want: "z=Progressing"},
		{name: "a soak of the one before does not matter", strategy: inSteps("1", config(2*time.Hour, "None", "0")), clusters: with(ofRevision("r1", member("z", "rest", Soaking, up))), want: "x+"},
		{name: "done", strategy: inSteps("1", zero), clusters: []Cluster{member("a", "rest", Succeeded, up)}, done: true},
		{name: "no clusters", strategy: inSteps("10%", zero), done: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := Decide(Input{Strategy: c.strategy, Revision: "r2", Groups: groups, Clusters: c.clusters, UnreachablePolicy: c.policy, NeedApproval: c.awaits, Paused: c.paused, Now: start})
			if err != nil {
				t.Fatal(err)
			}
			if got := words(p); got != c.want || p.Done != c.done || p.Breached != c.breached {
				t.Errorf("changes %q, done %t, breached %t; want %q, %t, %t", got, p.Done, p.Breached, c.want, c.done, c.breached)
			}
		})
	}
}

// TestAHeldClusterBeginsItsTimesAnew plays a cluster that is cut off for longer than its deadline and its soak.
func TestAHeldClusterBeginsItsTimesAnew(t *testing.T) {
	c := member("a", "", Soaking, up)
	in := Input{Strategy: inSteps("1", config(time.Hour, "1h", "0")), Revision: "r2", Now: start}
	step := func(isHeld bool, after time.Duration) Plan {
		t.Helper()
		c.Held, in.Now = isHeld, in.Now.Add(after)
		in.Clusters = []Cluster{c}
		p, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range p.Changes {
			c.Record = change.Record
		}
		return p
	}
	if p := step(true, 0); !slices.Equal(p.Held, []string{"a"}) || p.RecheckAfter != 0 {
		t.Errorf("held: %v, recheck after %s", p.Held, p.RecheckAfter)
	}
	if step(true, 5*time.Hour); c.Record.Phase != Soaking {
		t.Errorf("a held cluster is %s", c.Record.Phase)
	}
	if p := step(false, time.Second); c.Record.Phase != Soaking || p.RecheckAfter != time.Hour {
		t.Errorf("back again it is %s, to be looked at after %s", c.Record.Phase, p.RecheckAfter)
	}
	if step(false, time.Hour-1); c.Record.Phase != Soaking {
		t.Errorf("its soak was over too early")
	}
	if p := step(false, 1); c.Record.Phase != Succeeded || !p.Done {
		t.Errorf("at the end it is %s", c.Record.Phase)
	}
}

// A condition that holds for five minutes and fails for one keeps the cluster from a soak of ten. Each time it is in progress again.
// Claim: A health condition that fails in each soak times out. Broken: each failure starts the deadline again; Machines that are added count as failures. Also: hub/internal/fleet TestAConditionThatKeepsFailingEndsARollout.
// Edge case: A health condition that flaps kept a rollout in progress forever.
func TestAConditionThatFailsInEachSoakTimesOut(t *testing.T) {
	ends := func(flaps Observed, change func(minute int, c *Cluster)) (minute int) {
		c := member("a", "rest", Progressing, up)
		c.Record.Since = start
		for minute = range 24 * 60 {
			c.Observed = up
			if minute%6 == 5 {
				c.Observed = flaps
			}
			change(minute, &c)
			p, err := Decide(Input{Revision: "r2", Strategy: inSteps("1", config(10*time.Minute, "30m", "0")), Clusters: []Cluster{c}, Now: start.Add(time.Duration(minute) * time.Minute)})
			if err != nil {
				t.Fatal(err)
			}
			for _, change := range p.Changes {
				c.Record = change.Record
			}
			if c.Record.Phase == TimedOut {
				return minute
			}
		}
		return minute
	}
	never := func(int, *Cluster) {}
	for _, test := range []struct {
		name   string
		flaps  Observed
		change func(int, *Cluster)
		want   int
	}{
		{"a deadline after the first soak, which starts at once", ill, never, 41},
		{"a user or an autoscaler adds Machines", down, never, 24*60 - 1},
		{"what was before a freeze does not count", ill, func(minute int, c *Cluster) { c.Held = minute == 30 }, 30 + 41},
		{"nor does what was before another start", ill, func(minute int, c *Cluster) {
			if minute == 30 {
				c.Record.Phase = ToApply
			}
		}, 30 + 41},
	} {
		if got := ends(test.flaps, test.change); got != test.want {
			t.Errorf("%s: it ends at minute %d, and not at %d", test.name, got, test.want)
		}
	}
}

func TestAWrongStrategyNamesFieldAndRemedy(t *testing.T) {
	zero := config(0, "None", "0")
	cases := []struct {
		strategy      ocm.RolloutStrategy
		field, remedy string
	}{
		{ocm.RolloutStrategy{Type: "Slow"}, "rolloutStrategy.type", "use All"},
		{ocm.RolloutStrategy{Type: ocm.Progressive}, "rolloutStrategy.progressive:", "set at least"},
		{ocm.RolloutStrategy{Progressive: &ocm.RolloutProgressive{}}, "rolloutStrategy.progressive:", "set type to Progressive"},
		{inSteps("0", zero), "progressive.maxConcurrency", "set how many"},
		{inSteps("0%", zero), "progressive.maxConcurrency", "set how many"},
		{inSteps("-1", zero), "progressive.maxConcurrency", "set how many"},
		{inSteps("101%", zero), "progressive.maxConcurrency", "set how many"},
		{inSteps("1", config(-1, "None", "0")), "progressive.minSuccessTime", "use 0 or more"},
		{inSteps("1", config(0, "5m-or-so", "0")), "progressive.progressDeadline", "such as 90m"},
		{inSteps("1", config(0, "0s", "0")), "progressive.progressDeadline", "such as 90m"},
		{inSteps("1", config(0, "None", "many")), "progressive.maxFailures", "use a count"},
		{inSteps("1", config(0, "None", "-2")), "progressive.maxFailures", "use a count"},
		{inSteps("1", zero, "nope"), "mandatoryDecisionGroups[0].groupName", `the groups are ["canary"]`},
		{inSteps("1", zero, "canary", "canary"), "mandatoryDecisionGroups[1].groupName", "remove one"},
		{inGroups(zero, ""), "progressivePerGroup.mandatoryDecisionGroups[0].groupName", "name the group"},
	}
	for _, c := range cases {
		p, err := Decide(Input{Strategy: c.strategy, Revision: "r2", Groups: []string{"canary"}, Clusters: []Cluster{member("a", "", ToApply, up)}, Now: start})
		if err == nil || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.remedy) || len(p.Changes) > 0 {
			t.Errorf("%v: %d changes, error %v; want one of %s, with %q", c.strategy, len(p.Changes), err, c.field, c.remedy)
		}
	}
}
