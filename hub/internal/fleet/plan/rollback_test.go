package plan

import (
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// since gives a cluster an earlier revision to go back to.
func since(previous string, c Cluster) Cluster { c.Record.Previous = previous; return c }

// Claim: Recovering clusters are not rolled back together. Broken: each goes back in the place of its soak. Also: TestAStoppedRolloutIsRolledBackFromAnyStart, TestNothingIsBegunBeyondTheBounds.
func TestRollback(t *testing.T) {
	one, strict := inSteps("1", config(0, "None", "0")), inSteps("2", config(0, "None", "0"), "canary")
	failed, all := v1alpha1.RollbackFailed, v1alpha1.RollbackAll
	of := func(name string, phase Phase, observed Observed) Cluster {
		return since("r1", member(name, "rest", phase, observed))
	}
	left := func(c Cluster) Cluster { c.Left = true; return c }
	lost := func(c Cluster) Cluster { c.PreviousLost = true; return c }
	blocked := func(c Cluster) Cluster { c.Blocked = true; return c }
	canary := since("r1", member("c", "canary", Failed, bad))
	cases := []struct {
		name            string
		in              Input
		clusters        []Cluster
		want            string
		to, not         int
		running, stands bool
	}{
		{name: "None: a breach leaves all as they are", in: Input{Strategy: one}, clusters: []Cluster{of("a", Failed, bad), of("b", Succeeded, up)}},
		{name: "Failed: what failed", in: Input{Strategy: one, RollbackPolicy: failed}, clusters: []Cluster{of("a", Failed, bad), of("b", Succeeded, up), of("c", ToApply, up)}, want: "a<"},
		{name: "in the same write as the failure", in: Input{Strategy: one, RollbackPolicy: failed}, clusters: []Cluster{of("a", Progressing, bad)}, want: "a<"},
		{name: "Failed: what is in progress continues", in: Input{Strategy: strict, RollbackPolicy: failed}, clusters: []Cluster{canary, of("x", Progressing, down)}, want: "c<"},
		{name: "All: also what is in progress and what has succeeded", in: Input{Strategy: inSteps("3", config(0, "None", "0")), RollbackPolicy: all},
			clusters: []Cluster{of("a", Failed, bad), of("b", Succeeded, up), of("c", Progressing, down), of("d", ToApply, up)}, want: "c< a< b<"},
		{name: "no more at once than allowed, and first what has failed", in: Input{Strategy: one, RollbackPolicy: all}, clusters: []Cluster{of("a", Succeeded, up), of("b", Failed, bad)}, want: "b<", to: 1},
		{name: "clusters that recover together do not go back together", in: Input{Strategy: inSteps("1", config(time.Minute, "None", "0")), RollbackPolicy: all, Aborted: true},
			clusters: []Cluster{of("a", Failed, up), of("b", Failed, up), of("c", Soaking, up)}, want: "a=Soaking b=Soaking c=Succeeded", to: 3},
		{name: "one that recovers goes back in its place", in: Input{Strategy: inSteps("1", config(time.Minute, "None", "0")), RollbackPolicy: all, Aborted: true},
			clusters: []Cluster{of("a", Failed, up), of("b", Succeeded, up)}, want: "a<", to: 1},
		{name: "what is in the middle goes back, also if the bound was lowered", in: Input{Strategy: one, RollbackPolicy: all, Aborted: true},
			clusters: []Cluster{of("a", Progressing, down), of("b", Progressing, down)}, want: "a< b<"},
		{name: "within what may fail nothing is rolled back", in: Input{Strategy: inSteps("1", config(0, "None", "1")), RollbackPolicy: all}, clusters: []Cluster{of("a", Failed, bad), of("b", ToApply, up)}, want: "b+", running: true},
		{name: "with nothing to go back to it stays", in: Input{Strategy: one, RollbackPolicy: all}, clusters: []Cluster{member("a", "rest", Failed, bad), lost(of("b", Failed, bad)), of("c", Failed, bad)}, want: "c<", not: 2},
		{name: "a held cluster waits for its turn", in: Input{Strategy: one, RollbackPolicy: failed}, clusters: []Cluster{held(of("a", Failed, bad)), of("b", Failed, bad)}, want: "a=Failed b<", to: 1},
		{name: "a blocked cluster waits too", in: Input{Strategy: one, RollbackPolicy: failed}, clusters: []Cluster{blocked(of("a", Failed, bad))}, to: 1},
		{name: "one that has left stays", in: Input{Strategy: one, RollbackPolicy: all}, clusters: []Cluster{left(of("a", Failed, bad))}},
		{name: "paused, nothing is rolled back", in: Input{Strategy: one, RollbackPolicy: all, Paused: true}, clusters: []Cluster{of("a", Failed, bad)}, to: 1},
		{name: "outside of its window what has failed goes back, what is well does not", in: Input{Strategy: inSteps("2", config(0, "None", "0")), RollbackPolicy: all},
			clusters: []Cluster{closed(of("a", Failed, bad)), closed(of("b", Succeeded, up))}, want: "a<", to: 1},
		{name: "a cluster that only counts as failed is not rolled back", in: Input{Strategy: one, RollbackPolicy: failed, UnreachablePolicy: v1alpha1.UnreachableFail}, clusters: []Cluster{unreachable(of("a", Progressing, up))}, want: "a=Progressing"},
		{name: "health ends it", in: Input{Strategy: one, RollbackPolicy: failed}, clusters: []Cluster{of("a", RollingBack, up), of("b", Failed, bad)}, want: "a=RolledBack b<"},
		{name: "what cannot go back makes room", in: Input{Strategy: one, RollbackPolicy: failed}, clusters: []Cluster{of("a", RollingBack, bad), of("b", Failed, bad)}, want: "a=RollbackFailed b<"},
		{name: "nor what is late", in: Input{Strategy: inSteps("1", config(0, "30m", "0")), RollbackPolicy: failed}, clusters: []Cluster{of("a", RollingBack, down), of("b", Failed, bad)}, want: "a=RollbackFailed b<"},
		{name: "it recovers", in: Input{Strategy: one, RollbackPolicy: failed}, clusters: []Cluster{of("a", RollbackFailed, up)}, want: "a=RolledBack"},
		{name: "what was rolled back stays so, and stops the rollout, whatever may fail", in: Input{Strategy: inSteps("1", config(0, "None", "9"))}, clusters: []Cluster{of("a", RolledBack, up), of("b", ToApply, up)}},
		{name: "an abort starts nothing and leaves all as they are", in: Input{Strategy: one, Aborted: true}, clusters: []Cluster{of("a", Progressing, up), of("b", ToApply, up)}, want: "a=Succeeded"},
		{name: "an abort with Failed", in: Input{Strategy: strict, Aborted: true, RollbackPolicy: failed}, clusters: []Cluster{of("a", Succeeded, up), of("b", TimedOut, down)}, want: "b<"},
		{name: "an abort with All, of a rollout that is complete", in: Input{Strategy: strict, Aborted: true, RollbackPolicy: all}, clusters: []Cluster{of("a", Succeeded, up), of("b", Succeeded, up), of("c", Succeeded, up)}, want: "a< b<", to: 1},
		{name: "an abort rolls back what a retry was to start", in: Input{Strategy: one, Aborted: true, RollbackPolicy: failed, RetriedAt: start}, clusters: []Cluster{of("a", Failed, bad)}, want: "a<"},
		{name: "a retry starts what failed and what was rolled back, and nothing else", in: Input{Strategy: inSteps("9", config(0, "None", "0")), RollbackPolicy: all, RetriedAt: start},
			clusters: []Cluster{of("a", Failed, bad), of("b", RolledBack, up), of("c", TimedOut, down), of("d", Succeeded, up), of("e", RollbackFailed, bad)}, want: "a+ b+ c+ e+", running: true},
		{name: "as room allows, and what is being rolled back in its place", in: Input{Strategy: one, RetriedAt: start}, clusters: []Cluster{of("a", Failed, bad), of("b", RollingBack, down)}, want: "b+", running: true},
		{name: "a failure after it counts", in: Input{Strategy: one, RetriedAt: start}, clusters: []Cluster{func() Cluster { c := of("a", Failed, bad); c.Record.Retried = start; return c }()}},
		{name: "not while the revision is aborted", in: Input{Strategy: one, RetriedAt: start, Aborted: true}, clusters: []Cluster{of("a", Failed, bad)}},
		{name: "one that has left is not tried again, and stops nothing any more", in: Input{Strategy: one, RetriedAt: start}, clusters: []Cluster{left(of("a", Failed, bad)), of("b", ToApply, up)}, want: "b+", running: true},
		{name: "the fleet is back at what a cluster was rolled back to", in: Input{Strategy: one, Revision: "r1"},
			clusters: []Cluster{of("a", RolledBack, up), of("b", RollingBack, down), of("c", RollbackFailed, bad), of("d", Succeeded, up)}, want: "a=Succeeded b=Progressing c=Failed", stands: true},
		{name: "with another template a rollback that is in progress gives its place", in: Input{Strategy: one, Revision: "r3"}, clusters: []Cluster{of("a", ToApply, up), of("b", RollingBack, down)}, want: "b+", running: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := c.in
			if in.Revision == "" {
				in.Revision = "r2"
			}
			in.Groups, in.Clusters, in.Now = []string{"canary", "rest"}, c.clusters, start
			p, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := words(p); got != c.want || len(p.ToRollBack) != c.to || len(p.NotRolledBack) != c.not {
				t.Errorf("changes %q, to roll back %v, not %v; want %q, %d, %d", got, p.ToRollBack, p.NotRolledBack, c.want, c.to, c.not)
			}
			if p.Stopped == c.running && !c.stands || p.Done {
				t.Errorf("stopped %t, done %t", p.Stopped, p.Done)
			}
		})
	}
}

func TestWhatAClusterGoesBackTo(t *testing.T) {
	for name, c := range map[string]struct {
		before Record
		want   string
	}{
		"nothing before":                  {Record{}, ""},
		"what it succeeded with":          {Record{Revision: "r1", Phase: Succeeded, Previous: "r0"}, "r1"},
		"not what it failed with":         {Record{Revision: "r1", Phase: Failed, Previous: "r0"}, "r0"},
		"nor what it is in the middle of": {Record{Revision: "r1", Phase: Soaking, Previous: "r0"}, "r0"},
		"what it was rolled back to":      {Record{Revision: "r1", Phase: RolledBack, Previous: "r0"}, "r0"},
		"not what is started now":         {Record{Revision: "r1", Phase: Failed, Previous: "r2"}, ""},
	} {
		in := Input{Strategy: inSteps("1", config(0, "None", "0")), Revision: "r2", Clusters: []Cluster{{Name: "a", Record: c.before, Observed: down}}, Now: start}
		if c.before.Phase == Soaking {
			in.Strategy = inSteps("1", config(2*time.Hour, "None", "0"))
			in.Clusters[0].Observed, in.Clusters[0].Record.Since = up, start
		}
		p, err := Decide(in)
		if err != nil || len(p.Changes) != 1 || !p.Changes[0].Apply || p.Changes[0].Record.Previous != c.want {
			t.Errorf("%s: %+v, error %v; want %q", name, p.Changes, err, c.want)
		}
	}
}

// What a MachineDeployment said of an earlier attempt counts only after as long as it may make no progress.
func TestAnOldFailureIsNoNewOne(t *testing.T) {
	o := bad
	o.Deadline = 30 * time.Minute
	decideAt := func(phase Phase, failing, after time.Duration) Plan {
		t.Helper()
		c := since("r1", member("a", "", phase, o))
		c.Record.Since = start.Add(time.Second / 2) // The condition has whole seconds.
		c.Observed.FailingSince = start.Add(failing)
		p, err := Decide(Input{Strategy: inSteps("1", config(0, "None", "0")), Revision: "r2", Clusters: []Cluster{c}, Now: c.Record.Since.Add(after)})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		phase          Phase
		failing, after time.Duration
		want           string
	}{
		{Progressing, -time.Second, 30*time.Minute - 1, ""},
		{Progressing, -time.Second, 30 * time.Minute, "a=Failed"},
		{Progressing, 0, time.Second, "a=Failed"},
		{Progressing, time.Minute, time.Minute, "a=Failed"},
		{RollingBack, -time.Second, 30*time.Minute - 1, ""},
		{RollingBack, -time.Second, 30 * time.Minute, "a=RollbackFailed"},
	} {
		if p := decideAt(c.phase, c.failing, c.after); words(p) != c.want {
			t.Errorf("%s, failing since %s, after %s: %q, not %q", c.phase, c.failing, c.after, words(p), c.want)
		}
	}
	if p := decideAt(Progressing, -time.Second, 10*time.Minute); p.RecheckAfter != 20*time.Minute {
		t.Errorf("it is looked at again after %s", p.RecheckAfter)
	}
}
