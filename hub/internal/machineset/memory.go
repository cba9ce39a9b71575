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
// API server. All of it may be lost at any time: a hub that starts anew is the more careful. The zero value is
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

	marks        marks
	brake        failureBackoff
	updates      failureBackoff // Of bringing Machines up to date.
	replacements plan.Replacements
	arrivals     plan.ArrivalTracker
	// made and deleted are what is still to be told of.
	made, deleted emittedEvents
}

// of returns what is remembered of set, and forgets the sets that were not reconciled for long.
func (m *memory) of(set types.UID, now time.Time) *recollection {
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

// publish lets others ask for what known says of replacements.
func (m *memory) publish(known *recollection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known.going, known.owed = known.replacements.Going(), len(known.replacements.Owed())
}

// unseen returns how many Machines of set are in replacement beside those that are seen.
func (m *memory) unseen(set types.UID, seen map[types.UID]bool) int {
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

// newScope notes machine's mark, unless it is known.
func (m *marks) see(machine types.UID, value string, now time.Time) time.Time {
	if known, found := m.seen[machine]; found && known.value == value {
		return known.since
	}
	if m.seen == nil {
		m.seen = map[types.UID]mark{}
	}
	m.seen[machine] = mark{value: value, since: now}
	return now
}

// restart lets all marks count from the next look on: while a set is held, no controller can act on them.
func (m *marks) restart() { clear(m.seen) }

// keep forgets the marks of all but machines.
func (m *marks) keep(machines []plan.Machine) {
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
