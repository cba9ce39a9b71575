package machineset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// MaxAge is how old the beginning of a read may be when it is used. It is about what one read may take anyway.
const MaxAge = time.Second

// Stamp is a moment in the order of reads and writes of this process. The zero value is before all others.
type Stamp uint64

// Snapshots lets a MachineSet use what its MachineDeployment has read of the Machines a moment ago: those reads are most of
// what a step of a rollout takes. docs/design/machinedeployments.md says what makes it safe.
//
// It has the last read of each deployment, which is never changed after it was put. Nil has none.
type Snapshots struct {
	mu    sync.Mutex
	last  Stamp
	taken map[types.UID]*read
}

type read struct {
	begun    Stamp
	at       time.Time
	machines []*v1alpha1.Machine
}

// NewSnapshots returns Snapshots without any read.
func NewSnapshots() *Snapshots { return &Snapshots{taken: map[types.UID]*read{}} }

// Now returns a stamp that is after all that were returned before.
func (s *Snapshots) Now() Stamp {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last
}

// Put offers to the sets of deployment all Machines that it and they have, by a read that started at that stamp and time. The
// caller must not change a Machine afterwards, neither here nor in the API server, without a Drop before.
func (s *Snapshots) Put(deployment types.UID, begun Stamp, at time.Time, machines []*v1alpha1.Machine) {
	if s == nil {
		return
	}
	taken := &read{begun: begun, at: at, machines: machines}
	s.mu.Lock()
	s.taken[deployment] = taken
	s.mu.Unlock()
	// What may not be used any more takes up no memory.
	time.AfterFunc(MaxAge, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.taken[deployment] == taken {
			delete(s.taken, deployment)
		}
	})
}

// Drop takes back what was put for deployment.
func (s *Snapshots) Drop(deployment types.UID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, deployment)
}

// Since returns what was put for deployment if that read started after the stamp, and no longer than MaxAge before now.
func (s *Snapshots) Since(deployment types.UID, stamp Stamp, now time.Time) ([]*v1alpha1.Machine, bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.taken[deployment]
	if taken == nil || taken.begun <= stamp || now.Sub(taken.at) > MaxAge {
		return nil, false
	}
	return taken.machines, true
}
