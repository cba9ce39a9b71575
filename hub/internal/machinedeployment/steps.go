package machinedeployment

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// gatherTime is how long the first small step of a rollout waits for more: Machines that come up or go within it are
// answered together, which saves writes.
const gatherTime = 50 * time.Millisecond

// gatherMemory is how long the beginning of a step is remembered that is not taken.
const gatherMemory = time.Minute

// stepBatcher remembers since when each deployment has had a step to take. The zero value is ready for use.
type stepBatcher struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// begin takes in that deployment waits for something else before its next step, such as for what its sets still have to
// do. What comes up or goes meanwhile is gathered by that wait.
func (g *stepBatcher) begin(deployment types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, found := g.since[deployment]; !found {
		g.note(deployment, now)
	}
}

// end takes in that deployment takes its step now, or has none to take.
func (g *stepBatcher) end(deployment types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.since, deployment)
}

func (g *stepBatcher) note(deployment types.UID, now time.Time) {
	if g.since == nil {
		g.since = map[types.UID]time.Time{}
	}
	g.since[deployment] = now
}

// wait returns how long a step has to wait; 0 means that it is to be taken now.
// A whole step, to which nothing could be added, never waits.
func (g *stepBatcher) wait(deployment types.UID, whole bool, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, since := range g.since {
		if now.Sub(since) > gatherMemory {
			delete(g.since, uid) // The deployment is gone.
		}
	}
	since, found := g.since[deployment]
	if whole || found && now.Sub(since) >= gatherTime {
		return 0
	}
	if !found {
		g.note(deployment, now)
		since = now
	}
	return since.Add(gatherTime).Sub(now)
}
