package script

import (
	"slices"
	"time"
)

// Record is what a step saw on one side. Its figures have names, by which the two sides are compared.
type Record struct {
	// Facts are compared as text.
	Facts map[string]string `json:"facts,omitempty"`
	// Times are compared within a tolerance.
	Times map[string]time.Duration `json:"times,omitempty"`
	// Sequences are the states that something went through. A kubelet writes the state that it finds, so one may miss some of those that the
	// other has, but not the last. If the hollow node misses the first, that is a declared difference.
	Sequences map[string][]string `json:"sequences,omitempty"`
	// Orders are names in the order in which they came; names that came at once are in one group.
	Orders map[string][][]string `json:"orders,omitempty"`
	// Error says why the step could not be carried out.
	Error string `json:"error,omitempty"`
}

func newRecord() *Record {
	return &Record{Facts: map[string]string{}, Sequences: map[string][]string{}, Times: map[string]time.Duration{}, Orders: map[string][][]string{}}
}

func (r *Record) fact(name, value string)            { r.Facts[name] = value }
func (r *Record) took(name string, d time.Duration)  { r.Times[name] = d.Round(100 * time.Millisecond) }
func (r *Record) sequence(name string, s []string)   { r.Sequences[name] = s }
func (r *Record) order(name string, came [][]string) { r.Orders[name] = came }

// listStates returns each state of a sequence once, sorted.
func listStates(sequence []string) []string {
	sorted := slices.Sorted(slices.Values(sequence))
	return slices.Compact(sorted)
}

// areSequencesAlike tells whether one of both sequences has all states of the other in their order, and both end alike.
func areSequencesAlike(a, b []string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(b) == 0 {
		return len(a) == 0
	}
	if a[len(a)-1] != b[len(b)-1] {
		return false
	}
	next := 0
	for _, state := range a {
		if next < len(b) && state == b[next] {
			next++
		}
	}
	return next == len(b)
}

// haveConflict tells whether two names came one after the other in a, and the other way round in b. What came at once on one side
// conflicts with no order on the other, and names of one side only are a difference of facts.
func haveConflict(a, b [][]string) bool {
	rank := func(of [][]string, name string) int {
		return slices.IndexFunc(of, func(group []string) bool { return slices.Contains(group, name) })
	}
	names := slices.Concat(a...)
	for _, one := range names {
		for _, other := range names {
			before, after := rank(b, one), rank(b, other)
			if before >= 0 && after >= 0 && rank(a, one) < rank(a, other) && before > after {
				return true
			}
		}
	}
	return false
}
