package machinedeployment

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// gatherTime is how long the first small step of a rollout waits for more: Machines that come up or go within it are
// answered together, which saves writes.
const gatherTime = 100 * time.Millisecond

// gathering remembers since when each deployment has had a step to take. The zero value is ready for use.
type gathering struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// wait returns how long a step has to wait; 0 means that it is to be taken now, which wait then takes for done.
// A whole step, to which nothing could be added, never waits.
func (g *gathering) wait(deployment types.UID, whole bool, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, since := range g.since {
		if now.Sub(since) > 10*gatherTime {
			delete(g.since, uid) // Its step is no longer to be taken.
		}
	}
	since, found := g.since[deployment]
	if whole || found && now.Sub(since) >= gatherTime {
		delete(g.since, deployment)
		return 0
	}
	if !found {
		if g.since == nil {
			g.since = map[types.UID]time.Time{}
		}
		g.since[deployment], since = now, now
	}
	return since.Add(gatherTime).Sub(now)
}
