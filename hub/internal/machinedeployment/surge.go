package machinedeployment

import (
	"sync"

	"k8s.io/utils/keymutex"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// stripes is how many locks the surge groups of all namespaces have. Two that meet on one wait for each other without need.
const stripes = 64

// surges keep deployments from using the same surge twice, and remember which of them wait for some.
type surges struct {
	locks   keymutex.KeyMutex
	mu      sync.Mutex
	waiting map[string]map[string]bool // By namespace and name.
}

func newSurges() *surges {
	return &surges{locks: keymutex.NewHashed(stripes), waiting: map[string]map[string]bool{}}
}

// lock waits until no other deployment of the group acts, and returns what lets the next one. As long as it is held,
// what live reads show of the group is not about to change by a decision that another one has taken.
func (s *surges) lock(deployment *v1alpha1.MachineDeployment) (unlock func()) {
	group := deployment.Spec.Strategy.SurgeGroup()
	if group == "" {
		return func() {}
	}
	key := deployment.Namespace + "/" + group
	s.locks.LockKey(key)
	return func() { _ = s.locks.UnlockKey(key) } // Its error is always nil.
}

// register lets deployment be woken by what others give back, if it shares a surge.
func (s *surges) register(deployment *v1alpha1.MachineDeployment) {
	if deployment.Spec.Strategy.SurgeGroup() == "" {
		s.unregister(client.ObjectKeyFromObject(deployment))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[deployment.Namespace] == nil {
		s.waiting[deployment.Namespace] = map[string]bool{}
	}
	s.waiting[deployment.Namespace][deployment.Name] = true
}

// unregister ends that.
func (s *surges) unregister(deployment client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting[deployment.Namespace], deployment.Name)
	if len(s.waiting[deployment.Namespace]) == 0 {
		delete(s.waiting, deployment.Namespace)
	}
}

// waits tells whether deployment waits.
func (s *surges) waits(deployment *v1alpha1.MachineDeployment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[deployment.Namespace][deployment.Name]
}

// anyBeside tells whether one in namespace waits that is not called name.
func (s *surges) anyBeside(namespace, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.waiting[namespace]
	return len(waiting) > 1 || len(waiting) == 1 && !waiting[name]
}
