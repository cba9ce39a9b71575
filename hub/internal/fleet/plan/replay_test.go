package plan

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestReplay plays whole rollouts of six clusters minute by minute. Each minute a third of the clusters become
// healthy, as a seed says. The golden files show what is written when.
func TestReplay(t *testing.T) {
	soak := config(2*time.Minute, "10m", "0")
	cases := map[string]struct {
		in Input
		// at changes the world at a minute.
		at func(minute int, in *Input)
		// broken never becomes healthy with the revision, until the minute repaired if that is not 0.
		broken   string
		repaired int
	}{
		"canary-then-two-at-once":             {in: Input{Strategy: inSteps("2", soak, "canary")}},
		"group-by-group":                      {in: Input{Strategy: inGroups(soak)}},
		"a-canary-that-fails":                 {in: Input{Strategy: inSteps("2", soak, "canary")}, broken: "a"},
		"a-cluster-frozen-in-mid-wave":        {in: Input{Strategy: inSteps("2", soak, "canary")}, at: func(minute int, in *Input) { in.Clusters[3].Held = minute >= 11 && minute < 40 }},
		"a-canary-that-fails-is-rolled-back":  {in: Input{Strategy: inSteps("2", soak, "canary"), RollbackPolicy: v1alpha1.RollbackFailed}, broken: "a"},
		"a-cluster-that-fails-takes-all-back": {in: Input{Strategy: inSteps("2", soak, "canary"), RollbackPolicy: v1alpha1.RollbackAll}, broken: "e"},
		"a-rollout-aborted-in-mid-wave": {in: Input{Strategy: inSteps("2", soak, "canary"), RollbackPolicy: v1alpha1.RollbackAll}, at: func(minute int, in *Input) {
			in.Aborted = minute >= 14
		}},
		"a-retry-after-a-rollback": {in: Input{Strategy: inSteps("2", soak, "canary"), RollbackPolicy: v1alpha1.RollbackFailed}, broken: "a", repaired: 30,
			at: func(minute int, in *Input) {
				if minute == 30 {
					in.RetriedAt = in.Now
				}
			}},
		"a-template-changed-in-the-middle": {in: Input{Strategy: inSteps("1", soak)}, at: func(minute int, in *Input) {
			if minute == 6 {
				in.Revision = "r3"
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in, random := c.in, rand.New(rand.NewPCG(1, 1))
			in.Revision, in.Groups = "r2", []string{"canary", "rest"}
			for i, cluster := range []string{"a", "b", "c", "d", "e", "f"} {
				m := member(cluster, in.Groups[min(i/2, 1)], ToApply, up)
				if in.RollbackPolicy != "" {
					m = ofRevision("r1", member(m.Name, m.Group, Succeeded, up))
				}
				in.Clusters = append(in.Clusters, m)
			}
			var log strings.Builder
			for minute := range 90 {
				in.Now = start.Add(time.Duration(minute) * time.Minute)
				if c.at != nil {
					c.at(minute, &in)
				}
				p, err := Decide(in)
				if err != nil {
					t.Fatal(err)
				}
				for _, change := range p.Changes {
					write(&in, change)
				}
				if len(p.Changes) > 0 {
					fmt.Fprintf(&log, "%2d  wave %d  %s\n", minute, p.Wave, words(p))
				}
				if minute == 89 {
					fmt.Fprintf(&log, "end: done %t, breached %t, %v\n", p.Done, p.Breached, p.Counts)
				}
				for i := range in.Clusters {
					cluster := &in.Clusters[i]
					works := cluster.Name != c.broken || cluster.Record.Phase == RollingBack || c.repaired > 0 && minute >= c.repaired
					if works && random.IntN(3) == 0 {
						cluster.Observed.ObservedGeneration = cluster.Observed.Generation
					}
				}
			}
			compare(t, filepath.Join("testdata", name+".golden"), log.String())
		})
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: if the change is meant, run the test with -update\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}
