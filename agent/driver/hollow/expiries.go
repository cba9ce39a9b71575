package hollow

import (
	"sync"
	"time"
)

// expiries remembers when the bootstrap tokens of Machines that have not joined yet expire, so that their
// Secrets are not read at every look. It is only a memory: what it lacks is read from the Secret.
type expiries struct {
	mu        sync.Mutex
	byMachine map[string]time.Time
}

func (e *expiries) get(machine string) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	expiry, ok := e.byMachine[machine]
	return expiry, ok
}

func (e *expiries) set(machine string, expiry time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byMachine == nil {
		e.byMachine = map[string]time.Time{}
	}
	e.byMachine[machine] = expiry
}

func (e *expiries) forget(machine string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byMachine, machine)
}
