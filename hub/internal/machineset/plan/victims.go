package plan

import (
	"cmp"
	"slices"
)

// The ranks of a scale-down, first to go first. Machines that are being deleted already are no candidates:
// they count as gone, so none is picked twice.
const (
	rankMarked = iota
	rankFailed
	rankNotReady
	rankReady
)

var why = [...]string{
	rankMarked:   "marked for deletion",
	rankFailed:   "failed",
	rankNotReady: "not ready",
	rankReady:    "surplus",
}

// victims picks count of the candidates: marked ones, then failed, then not ready (newest first: it has cost
// the least), then the oldest ready ones. Names decide ties, so the order never depends on that of the input.
//
// The planner of MachineDeployments relies on it that a Machine which is ready and not marked goes only when
// no other is left.
func victims(candidates []Machine, count int) []Victim {
	if count <= 0 {
		return nil
	}
	sorted := slices.Clone(candidates)
	slices.SortFunc(sorted, func(a, b Machine) int {
		if order := cmp.Compare(rank(a), rank(b)); order != 0 {
			return order
		}
		if rank(a) == rankNotReady {
			return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
		}
		return oldestFirst(a, b)
	})
	picked := make([]Victim, count)
	for i, machine := range sorted[:count] {
		picked[i] = Victim{Machine: machine, Why: why[rank(machine)]}
	}
	return picked
}

func rank(machine Machine) int {
	switch {
	case machine.Marked:
		return rankMarked
	case machine.Failed:
		return rankFailed
	case !machine.Ready:
		return rankNotReady
	}
	return rankReady
}

func oldestFirst(a, b Machine) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}
