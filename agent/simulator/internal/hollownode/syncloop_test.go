package hollownode

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/rhythm"
)

// Claim: The sync loops of all nodes of a process start at moments of one period, and the next node may start meanwhile. Broken: beforeSync does not wait.
func TestSyncLoopsStartAtTheSameMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{0, 300 * time.Millisecond, 1700 * time.Millisecond} {
			<-time.After(after)
			node, mayStart := newLife(), time.Time{}
			go func() {
				<-node.loops
				mayStart = time.Now()
			}()
			before := time.Now()
			node.beforeSync()
			if left := rhythm.Until(time.Now(), loopPeriod); left != loopPeriod {
				t.Errorf("the next moment is %s later, want a whole period", left)
			}
			if mayStart != before {
				t.Errorf("the next node may start at %s, want %s", mayStart, before)
			}
		}
	})
}

func TestANodeThatHasEndedWaitsForNoMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, before := newLife(), time.Now()
		node.endNode()
		if node.beforeSync(); time.Now() != before {
			t.Errorf("it waited for %s", time.Since(before))
		}
	})
}
