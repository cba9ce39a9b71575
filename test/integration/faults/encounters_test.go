package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// manner is how the faults of a round come.
type manner string

const (
	once  manner = "once"
	again manner = "again and again"
)

// encounter is a round that came before an activity was done.
type encounter struct {
	how      manner
	round    string
	activity string
}

// encounters counts by encounter how often each fault came.
type encounters map[encounter]map[fleettest.Fault]int

// note counts an encounter with faults.
func (e encounters) note(one encounter, faults []fleettest.Fault) {
	if e[one] == nil {
		e[one] = map[fleettest.Fault]int{}
	}
	for _, fault := range faults {
		e[one][fault]++
	}
}

// inRound is how many activities were in the middle when a round came.
func (e encounters) inRound(how manner, next round) int {
	count := 0
	for _, activity := range activities {
		if _, caught := e[encounter{how, next.String(), activity.name}]; caught {
			count++
		}
	}
	return count
}

// byActivity counts what fits, for each activity.
func (e encounters) byActivity(fits func(fleettest.Fault) bool) []int {
	counts := make([]int, len(activities))
	for one, faults := range e {
		at := slices.IndexFunc(activities, func(a activity) bool { return a.name == one.activity })
		for fault, count := range faults {
			if fits(fault) {
				counts[at] += count
			}
		}
	}
	return counts
}

// missing are the kinds of faults and activities that have not met.
func (e encounters) missing() []string {
	var all []string
	for _, kind := range fleettest.Kinds {
		for i, count := range e.byActivity(func(f fleettest.Fault) bool { return f.Way.Kind() == kind }) {
			if count == 0 {
				all = append(all, fmt.Sprintf("%s in the middle of %s", kind, activities[i].name))
			}
		}
	}
	return all
}

// String is a table with a line for each fault.
func (e encounters) String() string {
	var faults []fleettest.Fault
	for _, all := range e {
		for fault := range all {
			if !slices.Contains(faults, fault) {
				faults = append(faults, fault)
			}
		}
	}
	slices.SortFunc(faults, func(a, b fleettest.Fault) int { return strings.Compare(a.String(), b.String()) })
	var table strings.Builder
	line := func(first string, cells ...any) {
		fmt.Fprintf(&table, "\n%-50s"+strings.Repeat("%16v", len(cells)), append([]any{first}, cells...)...)
	}
	var names []any
	for _, activity := range activities {
		names = append(names, activity.name)
	}
	line("", names...)
	for _, fault := range faults {
		var counts []any
		for _, count := range e.byActivity(func(f fleettest.Fault) bool { return f == fault }) {
			counts = append(counts, count)
		}
		line(fault.String(), counts...)
	}
	return table.String()
}

func TestEncountersTellARoundFromTheSameThatFlaps(t *testing.T) {
	g := NewWithT(t)
	fault := fleettest.Fault{Way: fleettest.Kill, Part: fleettest.Hub}
	e := encounters{}
	e.note(encounter{again, alone(fault).String(), "drain"}, []fleettest.Fault{fault})
	g.Expect(e.inRound(again, alone(fault))).To(Equal(1))
	g.Expect(e.inRound(once, alone(fault))).To(BeZero())
	g.Expect(e.missing()).To(HaveLen(len(fleettest.Kinds)*len(activities)-1), "one of them has met")
	g.Expect(e.missing()).NotTo(ContainElement("SIGKILL in the middle of drain"))
	g.Expect(e.String()).To(MatchRegexp(`kill the hub +0 +0 +1 +0 +0$`))
}
