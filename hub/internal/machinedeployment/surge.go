package machinedeployment

import (
	"sync"

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
