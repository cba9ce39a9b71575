package disrupt

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Mode is how many of the candidates are hit.
//
// +kubebuilder:validation:Enum=One;All;Fixed;Percent
type Mode string

const (
	// ModeOne hits one node.
	ModeOne Mode = "One"
	// ModeAll hits all nodes.
	ModeAll Mode = "All"
	// ModeFixed hits as many nodes as the value says.
	ModeFixed Mode = "Fixed"
	// ModePercent hits so many of 100 nodes as the value says, rounded down, as maxUnavailable is elsewhere in Kubernetes.
	ModePercent Mode = "Percent"
)

// Selection is which nodes are hit.
type Selection struct {
	// Seed decides which nodes: the same ones for the same seed.
	Seed int64
	Mode Mode
	// Value is the number of ModeFixed, from 0, and the percentage of ModePercent, 0 to 100. The other modes have none.
	Value int32
	// MaxUnavailable is how many of all candidates may be unavailable, those counted that are so without being hit, and those
	// that are excluded. Nil means any number.
	MaxUnavailable *int32
}

// Candidate is a node that may be hit.
type Candidate struct {
	Name string
	// Excluded keeps it from being hit. It still counts for MaxUnavailable.
	Excluded bool
	// Unavailable is that it is not Ready, for whatever reason: a node that is hit already is usually unavailable.
	Unavailable bool
}

// Validate reports what is wrong with s.
func (s Selection) Validate() error {
	problems := []error{oneOf("mode", s.Mode, ModeOne, ModeAll, ModeFixed, ModePercent)}
	switch {
	case s.Mode == ModePercent && (s.Value < 0 || s.Value > 100):
		problems = append(problems, fmt.Errorf("value: want a percentage from 0 to 100, got %d", s.Value))
	case s.Mode == ModeFixed && s.Value < 0:
		problems = append(problems, fmt.Errorf("value: want a number from 0, got %d", s.Value))
	case (s.Mode == ModeOne || s.Mode == ModeAll) && s.Value != 0:
		problems = append(problems, fmt.Errorf("value: has no meaning for the mode %s: remove it", s.Mode))
	}
	if s.MaxUnavailable != nil && *s.MaxUnavailable < 0 {
		problems = append(problems, fmt.Errorf("maxUnavailable: want a number from 0, got %d", *s.MaxUnavailable))
	}
	return errors.Join(problems...)
}

// Select returns the names of the nodes that are hit, in the order of their turn. It does not depend on the order of the
// candidates. Each candidate has a turn that follows from the seed and its name alone, so that nodes that come and go
// change as little as possible: one that comes takes the place of one at most, and the place of one that goes is taken by
// the next.
//
// A node that is unavailable already costs nothing of MaxUnavailable, so selecting again gives the same nodes when those
// that are hit have become unavailable.
func (s Selection) Select(candidates []Candidate) []string {
	turns := s.orderCandidates(candidates)
	budget := len(turns)
	if s.MaxUnavailable != nil {
		budget = int(*s.MaxUnavailable)
		for _, one := range turns {
			if one.Unavailable {
				budget--
			}
		}
	}
	turns = slices.DeleteFunc(turns, func(c turn) bool { return c.Excluded })
	turns = turns[:s.Count(len(turns))]
	var selected []string
	for _, one := range turns {
		if !one.Unavailable {
			if budget <= 0 {
				continue
			}
			budget--
		}
		selected = append(selected, one.Name)
	}
	return selected
}

// turn is a candidate with its place in the order.
type turn struct {
	Candidate
	place uint64
}

// orderCandidates are the candidates in the order in which they are hit. One that is there twice counts once.
func (s Selection) orderCandidates(candidates []Candidate) []turn {
	turns := make([]turn, 0, len(candidates))
	for _, one := range candidates {
		turns = append(turns, turn{one, chanceOf(s.Seed, "select", one.Name)})
	}
	slices.SortStableFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(turns, func(a, b turn) bool { return a.Name == b.Name })
}

// Count is how many of so many nodes are hit, whatever MaxUnavailable says.
func (s Selection) Count(nodes int) int {
	wanted := 0
	switch s.Mode {
	case ModeOne:
		wanted = 1
	case ModeAll:
		wanted = nodes
	case ModeFixed:
		wanted = int(s.Value)
	case ModePercent:
		wanted = nodes * int(s.Value) / 100
	}
	return max(0, min(wanted, nodes))
}
