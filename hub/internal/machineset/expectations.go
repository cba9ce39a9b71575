package machineset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// expectations remembers, per MachineSet, which Machines this process has created or deleted and the cache
// does not show yet, so that a stale cache never makes it do so twice. The zero value is ready for use.
type expectations struct {
	mu   sync.Mutex
	sets map[types.UID]map[types.UID]expectation
}

type expectation struct {
	deletion bool
	since    time.Time
}

// expect notes that a Machine of set was created, or deleted.
func (e *expectations) expect(set, machine types.UID, deletion bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sets == nil {
		e.sets = map[types.UID]map[types.UID]expectation{}
	}
	if e.sets[set] == nil {
		e.sets[set] = map[types.UID]expectation{}
	}
	e.sets[set][machine] = expectation{deletion: deletion, since: now}
}

// outstanding forgets what machines show and what is older than expectationTTL. It returns how many
// expectations of set are left, and the time until the first of them ends.
func (e *expectations) outstanding(set types.UID, machines []plan.Machine, now time.Time) (count int, end time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expire(now)
	open := e.sets[set]
	if len(open) == 0 {
		return 0, 0
	}
	shown := make(map[types.UID]plan.Machine, len(machines))
	for _, machine := range machines {
		shown[machine.UID] = machine
	}
	for uid, expected := range open {
		machine, found := shown[uid]
		if expected.deletion && (!found || machine.Deleting) || !expected.deletion && found {
			delete(open, uid)
			continue
		}
		if left := expected.since.Add(expectationTTL).Sub(now); end == 0 || left < end {
			end = left
		}
	}
	if len(open) == 0 {
		delete(e.sets, set)
	}
	return len(open), end
}

// expire drops what is too old, of sets that are gone too.
func (e *expectations) expire(now time.Time) {
	for set, open := range e.sets {
		for uid, expected := range open {
			if now.Sub(expected.since) >= expectationTTL {
				delete(open, uid)
			}
		}
		if len(open) == 0 {
			delete(e.sets, set)
		}
	}
}
