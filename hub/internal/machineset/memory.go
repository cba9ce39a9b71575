package machineset

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// memoryTTL is how long a set is remembered that is not reconciled. It is longer than all that is remembered.
const memoryTTL = time.Hour

// memory holds what the controller knows of each set from one reconciliation to the next and cannot read from the
// API server. All of it may be lost at any time: a hub that starts over is the more careful. The zero value is
// ready for use.
type memory struct {
	mu   sync.Mutex
	sets map[types.UID]*recollection
}

// recollection is what is remembered of one set. Only one reconciliation of a set runs at a time; what others may ask
// for is guarded by the memory's mutex.
type recollection struct {
	used time.Time
	// going are Machines that are being replaced, and owed is for how many that are gone others are to be made.
	going []types.UID
	owed  int

	// noRoom: the last time that the set wanted to make Machines, its deployment had no room for all of them.
	noRoom bool

	// wrote is after the last time that Machines of the set were changed.
	wrote Stamp

	marks           marks
	creationBackoff failureBackoff
	updateBackoff   failureBackoff // Of bringing Machines up to date.
	replacements    plan.Replacements
	arrivals        plan.ArrivalTracker
	// made and deleted are what is still to be told of.
	made, deleted emittedEvents
}

// memoryOf returns what is remembered of set, and forgets the sets that were not reconciled for long.
func (m *memory) memoryOf(set types.UID, now time.Time) *recollection {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets == nil {
		m.sets = map[types.UID]*recollection{}
	}
	found := m.sets[set]
	if found == nil {
		for uid, other := range m.sets {
			if now.Sub(other.used) > memoryTTL {
				delete(m.sets, uid)
			}
		}
		found = &recollection{}
		m.sets[set] = found
	}
	found.used = now
	return found
}

// publishReplacements lets others ask for what known says of replacements.
func (m *memory) publishReplacements(known *recollection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known.going, known.owed = known.replacements.Going(), len(known.replacements.Owed())
}

// countUnseen returns how many Machines of set are in replacement beside those that are seen.
func (m *memory) countUnseen(set types.UID, seen map[types.UID]bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.sets[set]
	if known == nil {
		return 0
	}
	count := known.owed
	for _, machine := range known.going {
		if !seen[machine] {
			count++
		}
	}
	return count
}

// marks remembers since when each mark for deletion could have been acted on.
type marks struct {
	seen map[types.UID]mark
}

type mark struct {
	value string
	since time.Time
}

// noteMark remembers machine's mark, and returns since when it has been seen.
func (m *marks) noteMark(machine types.UID, value string, now time.Time) time.Time {
	if known, found := m.seen[machine]; found && known.value == value {
		return known.since
	}
	if m.seen == nil {
		m.seen = map[types.UID]mark{}
	}
	m.seen[machine] = mark{value: value, since: now}
	return now
}

// restartMarks lets all marks count from the next look on: while a set is waiting, no controller can act on them.
func (m *marks) restartMarks() { clear(m.seen) }

// keepMarks forgets the marks of all but machines.
func (m *marks) keepMarks(machines []plan.Machine) {
	if len(m.seen) == 0 {
		return
	}
	marked := map[types.UID]bool{}
	for _, machine := range machines {
		marked[machine.UID] = machine.Marked
	}
	for uid := range m.seen {
		if !marked[uid] {
			delete(m.seen, uid)
		}
	}
}

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

// expectChange notes that a Machine of set was created, or deleted.
func (e *expectations) expectChange(set, machine types.UID, deletion bool, now time.Time) {
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

// countOutstanding forgets what machines show and what is older than expectationTTL. It returns how many
// expectations of set are left, and the time until the first of them ends.
func (e *expectations) countOutstanding(set types.UID, machines []plan.Machine, now time.Time) (count int, end time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropExpired(now)
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

// dropExpired drops what is too old, of sets that are gone too.
func (e *expectations) dropExpired(now time.Time) {
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
