package plan

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// MarkLifetime is how long a mark for deletion is good for. cluster-autoscaler marks a Machine and then scales
// down; if that fails, the mark stays, and must not make a later scale-down take this Machine. The hub counts from
// when it has first seen the mark and could act on it; a scale-down within the time takes the Machine, else the
// hub takes the mark off.
const MarkLifetime = 10 * time.Minute

// state ranks a Machine by what its loss costs, least first.
type state int

const (
	stateFailed state = iota
	stateNotReady
	stateNotAvailable
	stateUnhealthy
	stateFine
)

var why = [...]string{
	stateFailed:       "failed",
	stateNotReady:     "not ready",
	stateNotAvailable: "not available yet",
	stateUnhealthy:    "unhealthy",
	stateFine:         "surplus",
}

// pickVictims picks count of the candidates: marked ones, the latest mark first; then those of the lowest deletion
// priority; then those whose loss costs least; then by the set's policy. Names decide ties, so the order never
// depends on that of the input. Machines that are being deleted already are no candidates: they count as gone,
// so none is picked twice.
//
// The planner of MachineDeployments relies on it that of Machines that are not marked and have one priority, an
// available one goes only when no other is left.
func pickVictims(in Input, candidates []Machine, count int) []Victim {
	sorted := slices.Clone(candidates)
	slices.SortFunc(sorted, func(a, b Machine) int {
		return cmp.Or(
			compareMarks(a, b, in.Now),
			cmp.Compare(a.Priority, b.Priority),
			cmp.Compare(stateOf(a), stateOf(b)),
			compareByPolicy(a, b, in.Policy),
			cmp.Compare(a.Name, b.Name),
		)
	})
	picked := make([]Victim, min(count, len(sorted)))
	for i := range picked {
		picked[i] = Victim{Machine: sorted[i], Why: victimReason(sorted[i], in.Now)}
	}
	return picked
}

func victimReason(machine Machine, now time.Time) string {
	state := stateOf(machine)
	switch {
	case isMarked(machine, now):
		return "marked for deletion"
	case machine.Priority < v1alpha1.DefaultDeletionPriority && state == stateFine:
		return "low deletion priority"
	}
	return why[state]
}

func compareMarks(a, b Machine, now time.Time) int {
	left, right := isMarked(a, now), isMarked(b, now)
	switch {
	case left && right:
		return b.MarkedAt.Compare(a.MarkedAt)
	case left:
		return -1
	case right:
		return 1
	}
	return 0
}

// isMarked reports whether machine is marked for deletion, by a mark that is not stale.
func isMarked(machine Machine, now time.Time) bool {
	return machine.Marked && now.Sub(machine.MarkSeen) < MarkLifetime
}

// staleMarks returns the Machines whose mark is too old, and the time until the next one is. While there is a
// surplus, marks that are still good wait for their turn.
func staleMarks(in Input, active []Machine, surplus int) (stale []Machine, next time.Duration) {
	for _, machine := range active {
		switch {
		case !machine.Marked:
		case !isMarked(machine, in.Now):
			stale = append(stale, machine)
		case surplus <= 0:
			if left := machine.MarkSeen.Add(MarkLifetime).Sub(in.Now); next == 0 || left < next {
				next = left
			}
		}
	}
	slices.SortFunc(stale, oldestFirst)
	return stale, next
}

func stateOf(machine Machine) state {
	switch {
	case machine.Failed:
		return stateFailed
	case !machine.Ready:
		return stateNotReady
	case !machine.Available:
		return stateNotAvailable
	case machine.Unhealthy:
		return stateUnhealthy
	}
	return stateFine
}

// compareByPolicy orders by age, or for Random by a hash of the UID: random among Machines, and yet the same
// whenever it is asked.
func compareByPolicy(a, b Machine, policy v1alpha1.DeletePolicy) int {
	switch policy {
	case v1alpha1.DeleteNewest:
		return b.Created.Compare(a.Created)
	case v1alpha1.DeleteRandom:
		return cmp.Compare(drawLot(a), drawLot(b))
	default:
		return a.Created.Compare(b.Created)
	}
}

func drawLot(machine Machine) uint32 {
	sum := fnv.New32a()
	sum.Write([]byte(machine.UID)) // Never fails.
	return sum.Sum32()
}

func oldestFirst(a, b Machine) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// Unhealthy returns the Machines of the set that are unhealthy, by name. One that is deleted to be replaced counts
// until it is gone; one that is deleted for another reason needs no remediation any more.
func Unhealthy(machines []Machine) []Machine {
	var unhealthy []Machine
	for _, machine := range machines {
		if machine.Owned && (machine.Remediated && machine.Deleting || machine.Unhealthy && !machine.Deleting) {
			unhealthy = append(unhealthy, machine)
		}
	}
	slices.SortFunc(unhealthy, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return unhealthy
}

// replaceableMachines returns the failed Machines to be replaced now. It is asked only when no Machine is missing and none
// is too many: while Machines cannot be created, none is deleted for another one's sake.
func replaceableMachines(in Input, active []Machine) []Victim {
	maxUnhealthy, maxInFlight := in.Remediation.Limits(in.Replicas)
	if !in.Connected || len(Unhealthy(in.Machines)) > maxUnhealthy {
		return nil
	}
	inFlight := in.Elsewhere
	for _, machine := range in.Machines {
		if machine.Owned && (machine.Remediated && machine.Deleting || machine.Replacement && !machine.Deleting) {
			inFlight++
		}
	}
	var failed []Machine
	for _, machine := range active {
		if machine.Owned && machine.Failed && machine.Replaceable {
			failed = append(failed, machine)
		}
	}
	picked := pickVictims(in, failed, max(maxInFlight-inFlight, 0))
	for i := range picked {
		picked[i].Why = picked[i].Reason
	}
	return picked
}

// Replacements remembers for which Machines others are still to be made: an API server shows one that is being
// replaced only until it is gone. The zero value is ready for use.
type Replacements struct {
	started bool
	going   map[types.UID]string
	owed    []string
}

// Note compares machines with what was being replaced: those that are gone are owed a replacement, as long as a
// Machine is missing. Of the Machines that have vanished before the first look, each may be one, of a name that
// is not known.
func (r *Replacements) Note(machines []Machine, missing, vanished int) {
	if !r.started {
		r.started, r.owed, r.going = true, make([]string, max(vanished, 0)), map[types.UID]string{}
	}
	shown := map[types.UID]bool{}
	for _, machine := range machines {
		if machine.Remediated && machine.Deleting {
			shown[machine.UID] = true
			r.going[machine.UID] = machine.Name
		}
	}
	for uid, name := range r.going {
		if !shown[uid] {
			delete(r.going, uid)
			r.owed = append(r.owed, name)
		}
	}
	r.owed = r.owed[:min(len(r.owed), max(missing, 0))]
}

// Owed returns the names of the Machines for which others are to be made; a name is empty if it is not known.
func (r *Replacements) Owed() []string { return r.owed }

// Going returns the Machines that were being replaced and not gone at the last Note.
func (r *Replacements) Going() []types.UID { return slices.Collect(maps.Keys(r.going)) }

// Made notes that others have been made for the first count of Owed.
func (r *Replacements) Made(count int) { r.owed = r.owed[min(count, len(r.owed)):] }

// MarkTime reads the time from a mark for deletion, as cluster-autoscaler writes it ("2026-01-31 10:00:00.123456
// +0000 UTC m=+1.5", which is Go's own form) or in RFC 3339. It reports false for any other value.
func MarkTime(value string) (time.Time, bool) {
	value, _, _ = strings.Cut(value, " m=")
	for _, layout := range []string{"2006-01-02 15:04:05.999999999 -0700 MST", time.RFC3339Nano} {
		if at, err := time.Parse(layout, value); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
