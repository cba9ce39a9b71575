// Package plan decides which SimulatedClusters of a set are created, deleted and updated. It is pure.
//
// A set never gets more SimulatedClusters than its replicas by creating: those that are being deleted keep their places until they are
// gone. The lowest free ordinal is created first, on the host with the fewest of the set. A scale-down takes the highest ordinals, none
// that a user keeps, and none on a host that is held; it never takes a lower one in the place of one that waits.
package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Host is a Cluster that may host SimulatedClusters.
type Host struct {
	Name string
	// Unusable says why it gets no new ones until a user changes something; empty if it can.
	Unusable string
	// Held says why nothing is created and deleted there now; empty if nothing holds it.
	Held string
	// Passing: what holds it ends by itself within seconds, so that it is waited for.
	Passing bool
	// Selected: the set's selector chooses it.
	Selected bool
}

// Member is a SimulatedCluster of the set.
type Member struct {
	Host    string
	Ordinal int
	// Kept: a user does not want it to be taken by a scale-down.
	Kept bool
	// Deleting: it is on its way out.
	Deleting bool
	// Outdated: it does not have the template's metadata.
	Outdated bool
	// Orphan: it was the set's, and has no owner.
	Orphan bool
}

// Input is what a decision rests on.
type Input struct {
	Replicas int
	// Frozen: nothing is changed.
	Frozen  bool
	Hosts   []Host
	Members []Member
	// Taken are the ordinals whose names belong to others.
	Taken map[int]bool
}

// Plan is what to do.
type Plan struct {
	Create                []Place
	Delete, Update, Adopt []Place
	// Missing is how many more are wanted than there are; those of them that Create has not, wait.
	Missing int
	// Taken are the ordinals that cannot be created, because their names belong to others.
	Taken []int
	// Surplus is how many more there are than wanted. Kept is how many of them annotations keep. Held are those that wait for their hosts.
	Surplus, Kept int
	Held          []Place
	// Starting: creations wait for hosts that are held for seconds only.
	Starting bool
}

// Place is where one SimulatedCluster of the set is, or will be.
type Place struct {
	Host    string
	Ordinal int
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Create)+len(p.Delete)+len(p.Update)+len(p.Adopt) == 0 }

// NameOf is the name of a set's SimulatedCluster.
func NameOf(set string, ordinal int) string { return set + "-" + strconv.Itoa(ordinal) }

// OrdinalOf returns the ordinal that a name of a set's SimulatedCluster has.
func OrdinalOf(set, name string) (ordinal int, is bool) {
	digits, found := strings.CutPrefix(name, set+"-")
	if !found {
		return 0, false
	}
	ordinal, err := strconv.Atoi(digits)
	return ordinal, err == nil && ordinal >= 0 && NameOf(set, ordinal) == name
}

// Decide decides what to do. Members have ordinals that differ.
func Decide(in *Input) *Plan {
	p := &Plan{}
	live := 0
	for _, m := range in.Members {
		if !m.Deleting {
			live++
		}
	}
	p.Surplus, p.Missing = max(live-in.Replicas, 0), max(in.Replicas-len(in.Members), 0)
	if in.Frozen {
		return p
	}
	hosts := map[string]Host{}
	for _, host := range in.Hosts {
		hosts[host.Name] = host
	}
	p.chooseVictims(in, hosts)
	p.choosePlaces(in)
	for _, m := range in.Members {
		at := Place{m.Host, m.Ordinal}
		if m.Deleting || slices.Contains(p.Delete, at) {
			continue
		}
		if m.Orphan {
			p.Adopt = append(p.Adopt, at)
		} else if m.Outdated && isFree(hosts, m.Host) {
			p.Update = append(p.Update, at)
		}
	}
	return p
}

// isFree reports whether a host exists and is not held.
func isFree(hosts map[string]Host, name string) bool {
	host, exists := hosts[name]
	return exists && host.Held == ""
}

// chooseVictims takes the highest ordinals that nobody keeps. What is an orphan is adopted before it is deleted.
func (p *Plan) chooseVictims(in *Input, hosts map[string]Host) {
	candidates := slices.DeleteFunc(slices.Clone(in.Members), func(m Member) bool { return m.Deleting || m.Kept })
	slices.SortFunc(candidates, func(a, b Member) int { return cmp.Compare(b.Ordinal, a.Ordinal) })
	victims := candidates[:min(p.Surplus, len(candidates))]
	p.Kept = p.Surplus - len(victims)
	for _, m := range victims {
		at := Place{m.Host, m.Ordinal}
		switch {
		case m.Orphan:
		case isFree(hosts, m.Host):
			p.Delete = append(p.Delete, at)
		default:
			p.Held = append(p.Held, at)
		}
	}
}

// choosePlaces gives the lowest free ordinals to the hosts with the fewest of the set. An ordinal whose name is taken is missing until
// its name is free: another ordinal in its place would be one too many then.
func (p *Plan) choosePlaces(in *Input) {
	occupied, load := map[int]bool{}, map[string]int{}
	for _, m := range in.Members {
		occupied[m.Ordinal] = true
		load[m.Host]++
	}
	var usable []string
	for _, host := range in.Hosts {
		switch {
		case !host.Selected || host.Unusable != "":
		case host.Passing:
			p.Starting = true
		case host.Held == "":
			usable = append(usable, host.Name)
		}
	}
	for ordinal, missing := 0, p.Missing; missing > 0; ordinal++ {
		if occupied[ordinal] {
			continue
		}
		missing--
		if in.Taken[ordinal] {
			p.Taken = append(p.Taken, ordinal)
			continue
		}
		if p.Starting || len(usable) == 0 {
			continue
		}
		chosen := slices.MinFunc(usable, func(a, b string) int { return cmp.Or(cmp.Compare(load[a], load[b]), cmp.Compare(a, b)) })
		load[chosen]++
		p.Create = append(p.Create, Place{chosen, ordinal})
	}
}
