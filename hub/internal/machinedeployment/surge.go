package machinedeployment

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// surges keep deployments from using the same surge twice, and remember which of them wait for some.
type surges struct {
	locks   reconciler.Locks[surgeGroup]
	mu      sync.Mutex
	waiting map[string]map[string]bool // By namespace and name.
}

type surgeGroup struct{ namespace, name string }

func newSurges() *surges { return &surges{waiting: map[string]map[string]bool{}} }

// lockGroup waits until no other deployment of the group acts, and returns what lets the next one. As long as it is held,
// what live reads show of the group is not about to change by a decision that another one has taken.
func (s *surges) lockGroup(deployment *v1alpha1.MachineDeployment) (unlock func()) {
	group := deployment.Spec.Strategy.SurgeGroup()
	if group == "" {
		return func() {}
	}
	return s.locks.Lock(surgeGroup{deployment.Namespace, group})
}

// registerDeployment lets deployment be woken by what others give back, if it shares a surge.
func (s *surges) registerDeployment(deployment *v1alpha1.MachineDeployment) {
	if deployment.Spec.Strategy.SurgeGroup() == "" {
		s.unregisterDeployment(client.ObjectKeyFromObject(deployment))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[deployment.Namespace] == nil {
		s.waiting[deployment.Namespace] = map[string]bool{}
	}
	s.waiting[deployment.Namespace][deployment.Name] = true
}

// unregisterDeployment ends that.
func (s *surges) unregisterDeployment(deployment client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting[deployment.Namespace], deployment.Name)
	if len(s.waiting[deployment.Namespace]) == 0 {
		delete(s.waiting, deployment.Namespace)
	}
}

// isWaiting reports whether deployment waits.
func (s *surges) isWaiting(deployment *v1alpha1.MachineDeployment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[deployment.Namespace][deployment.Name]
}

// anyBeside reports whether one in namespace waits that is not called name.
func (s *surges) anyBeside(namespace, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.waiting[namespace]
	return len(waiting) > 1 || len(waiting) == 1 && !waiting[name]
}

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

// noteWaiting takes in that deployment waits for something else before its next step, such as for what its sets still have to
// do. What comes up or goes meanwhile is gathered by that wait.
func (g *stepBatcher) noteWaiting(deployment types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, found := g.since[deployment]; !found {
		g.noteChange(deployment, now)
	}
}

// noteStep takes in that deployment takes its step now, or has none to take.
func (g *stepBatcher) noteStep(deployment types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.since, deployment)
}

func (g *stepBatcher) noteChange(deployment types.UID, now time.Time) {
	if g.since == nil {
		g.since = map[types.UID]time.Time{}
	}
	g.since[deployment] = now
}

// timeToWait returns how long a step has to wait; 0 means that it is to be taken now.
// A whole step, to which nothing could be added, never waits.
func (g *stepBatcher) timeToWait(deployment types.UID, whole bool, now time.Time) time.Duration {
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
		g.noteChange(deployment, now)
		since = now
	}
	return since.Add(gatherTime).Sub(now)
}
