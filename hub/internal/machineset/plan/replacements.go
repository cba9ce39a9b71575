package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

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
