package plan

import (
	"strings"
	"testing"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// TestAnUnreachableClusterKeepsItsRoomByEitherPolicy edits unreachablePolicy while the only cluster that may be in progress is
// unreachable: the next one is started only if the policy now and the promised one both let go of it.
// Claim: An unreachable cluster keeps its room while one of two policies waits for it. Broken: one that soaks counts as failed only.
func TestAnUnreachableClusterKeepsItsRoomByEitherPolicy(t *testing.T) {
	hold, fail := v1alpha1.UnreachableHold, v1alpha1.UnreachableFail
	for _, phase := range []Phase{Progressing, Soaking} {
		for _, c := range []struct {
			promised, now v1alpha1.UnreachablePolicy
			starts        bool
		}{{hold, hold, false}, {fail, hold, false}, {hold, fail, false}, {fail, fail, true}} {
			strategy := inSteps("1", config(0, "None", "1"))
			p, err := Decide(Input{
				Strategy: strategy, Revision: "r2", UnreachablePolicy: c.now, Now: start,
				Snapshot: map[string]string{"a": "", "b": ""}, Promise: &Promise{Since: start, Strategy: strategy, UnreachablePolicy: c.promised},
				Clusters: []Cluster{unreachable(member("a", "", phase, up)), member("b", "", ToApply, up)},
			})
			if err != nil || strings.Contains(words(p), "b+") != c.starts {
				t.Errorf("a is %s, %s was promised, %s is set now: %q, error %v", phase, c.promised, c.now, words(p), err)
			}
		}
	}
}
