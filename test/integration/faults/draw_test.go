package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// sharedParts and ownParts are those whose faults are paired with each other: all that runs as a process.
var (
	sharedParts = []fleettest.Part{fleettest.Hub, fleettest.HubServer, fleettest.HubEtcd}
	ownParts    = []fleettest.Part{fleettest.Agent, fleettest.TargetServer, fleettest.TargetEtcd}
)

// waysOf are the ways to break a part.
func waysOf(part fleettest.Part) []fleettest.Way {
	ways := []fleettest.Way{fleettest.Kill, fleettest.Stop, fleettest.Refuse, fleettest.BlackHole, fleettest.Slow}
	switch part {
	case fleettest.HubEtcd, fleettest.TargetEtcd:
		return append(ways, fleettest.BlackHoleUp, fleettest.BlackHoleDown)
	case fleettest.HostLink:
		return ways[2:4]
	default:
		return append(ways, fleettest.BlackHoleUp, fleettest.BlackHoleDown, fleettest.Crawl)
	}
}

// singles are all faults that come alone.
func singles() []fleettest.Fault {
	var all []fleettest.Fault
	for _, part := range append(slices.Concat(sharedParts, ownParts), fleettest.HostLink) {
		for _, way := range waysOf(part) {
			all = append(all, fleettest.Fault{Way: way, Part: part})
		}
	}
	return all
}

// someSingles are one fault of each kind, with shared parts and with those of one cluster in turn.
func someSingles(random *rand.Rand) []fleettest.Fault {
	var some []fleettest.Fault
	shared := random.IntN(2) == 0
	for _, kind := range fleettest.Kinds {
		shared = !shared
		var fit []fleettest.Fault
		for _, one := range singles() {
			if one.Way.Kind() == kind && one.Part.Shared() == shared {
				fit = append(fit, one)
			}
		}
		some = append(some, fit[random.IntN(len(fit))])
	}
	return some
}

// round is what breaks in each cluster at the same time. Shared faults are in all of them.
type round [][]fleettest.Fault

func (r round) String() string {
	var clusters []string
	for _, faults := range r {
		clusters = append(clusters, fmt.Sprint(faults))
	}
	return strings.Join(slices.Compact(clusters), ", ")
}

// alone is a round of one fault, everywhere.
func alone(fault fleettest.Fault) round {
	return slices.Repeat(round{{fault}}, clusters)
}

// ownTurns tells for each cluster which of ownParts it has to do with: another one in each, from one that is drawn.
func ownTurns(random *rand.Rand) []int {
	first := random.IntN(len(ownParts))
	var turns []int
	for i := range clusters {
		turns = append(turns, (first+i)%len(ownParts))
	}
	return turns
}

// pairs are rounds in which two things break at once: every pair of parts, in ways that are drawn such that each kind
// has its turn before one comes again. A part that each cluster has is in one or two of them, and so meets as many
// activities in one run; which ones, is drawn too.
func pairs(random *rand.Rand) []round {
	var deck []fleettest.Kind
	draw := func(part fleettest.Part) fleettest.Fault {
		for i := 0; ; i++ {
			if i == len(deck) {
				next := slices.Clone(fleettest.Kinds)
				random.Shuffle(len(next), func(a, b int) { next[a], next[b] = next[b], next[a] })
				deck = append(deck, next...)
			}
			fits := func(way fleettest.Way) bool { return way.Kind() == deck[i] }
			if at := slices.IndexFunc(waysOf(part), fits); at >= 0 {
				deck = slices.Delete(deck, i, i+1)
				return fleettest.Fault{Way: waysOf(part)[at], Part: part}
			}
		}
	}
	var all []round
	for _, shared := range sharedParts {
		next, everywhere := round{}, draw(shared)
		for _, i := range ownTurns(random) {
			next = append(next, []fleettest.Fault{everywhere, draw(ownParts[i])})
		}
		all = append(all, next)
	}
	next := round{}
	for _, i := range ownTurns(random) {
		next = append(next, []fleettest.Fault{draw(ownParts[i]), draw(ownParts[(i+1)%len(ownParts)])})
	}
	all = append(all, next)
	for i := range sharedParts {
		both := []fleettest.Fault{draw(sharedParts[i]), draw(sharedParts[(i+1)%len(sharedParts)])}
		all = append(all, slices.Repeat(round{both}, clusters))
	}
	return all
}

// asBorne returns the rounds as clusters bear them whose control planes share a process. A kill of one starts that process again, which
// ends a stop of another: so beside a kill, stops become kills.
func asBorne(rounds []round) []round {
	ofTarget := func(way fleettest.Way) func(fleettest.Fault) bool {
		return func(fault fleettest.Fault) bool {
			return fault.Way == way && slices.Contains([]fleettest.Part{fleettest.TargetServer, fleettest.TargetEtcd}, fault.Part)
		}
	}
	for _, one := range rounds {
		if !slices.ContainsFunc(slices.Concat(one...), ofTarget(fleettest.Kill)) {
			continue
		}
		for _, faults := range one {
			for i := range faults {
				if ofTarget(fleettest.Stop)(faults[i]) {
					faults[i].Way = fleettest.Kill
				}
			}
		}
	}
	return rounds
}

// extent is how many rounds of all that are possible a run has.
type extent int

const (
	// short is the run of "make test": two parts of each cluster break at once, then one of each cluster comes and goes.
	short extent = iota
	// long is the run of "make test-long": each kind of fault comes alone.
	long
	// whole is the run of "make faults": everything.
	whole
)

// extentOfRun is what the flags of go test ask for.
func extentOfRun() extent {
	switch {
	case *wholeFlag:
		return whole
	case testing.Short():
		return short
	default:
		return long
	}
}

// flapping are rounds that come and go: what all clusters share, one part after the other, and what each has, another
// part in each of them.
func flapping(extent extent, seed uint64) []round {
	rounds := drawFlapping(extent, seed)
	if isShared() {
		return asBorne(rounds)
	}
	return rounds
}

func drawFlapping(extent extent, seed uint64) []round {
	random := rand.New(rand.NewPCG(seed, 1))
	draw := func(part fleettest.Part) fleettest.Fault {
		ways := waysOf(part)
		return fleettest.Fault{Way: ways[random.IntN(len(ways))], Part: part}
	}
	var rounds []round
	for _, part := range sharedParts {
		rounds = append(rounds, alone(draw(part)))
	}
	switch extent {
	case short:
		rounds = nil
	case long:
		rounds = rounds[random.IntN(len(rounds)):][:1]
	case whole:
	}
	own := round{}
	for _, i := range ownTurns(random) {
		own = append(own, []fleettest.Fault{draw(ownParts[i])})
	}
	return append(rounds, own)
}

// drawn are the rounds of this run.
func drawn(extent extent, seed uint64) []round {
	rounds := drawAll(extent, seed)
	if isShared() {
		return asBorne(rounds)
	}
	return rounds
}

func drawAll(extent extent, seed uint64) []round {
	random := rand.New(rand.NewPCG(seed, 0))
	var rounds []round
	if extent == whole {
		for _, one := range singles() {
			rounds = append(rounds, alone(one))
		}
		return append(rounds, pairs(random)...)
	}
	for _, one := range someSingles(random) {
		rounds = append(rounds, alone(one))
	}
	both := pairs(random)
	withShared, own := both[random.IntN(len(sharedParts))], both[len(sharedParts)]
	if extent == short {
		return []round{own}
	}
	return append(rounds, withShared, own)
}

func TestEveryDrawBreaksInEveryWay(t *testing.T) {
	for seed := range uint64(50) {
		for _, extent := range []extent{long, whole} {
			g := NewWithT(t)
			kinds, parts := map[fleettest.Kind]bool{}, map[bool]bool{}
			for _, round := range drawn(extent, seed) {
				g.Expect(round).To(HaveLen(clusters))
				for _, faults := range round {
					if len(faults) == 1 {
						kinds[faults[0].Way.Kind()], parts[faults[0].Part.Shared()] = true, true
					}
				}
			}
			g.Expect(kinds).To(HaveLen(len(fleettest.Kinds)), "seed %d: every kind comes alone, and so meets every activity", seed)
			g.Expect(parts).To(HaveLen(2), "seed %d: what is shared breaks, and what each cluster has", seed)
		}
	}
}

func TestEveryPartFlaps(t *testing.T) {
	for seed := range uint64(50) {
		g := NewWithT(t)
		for extent, want := range map[extent]int{short: len(ownParts), long: 1 + len(ownParts), whole: len(sharedParts) + len(ownParts)} {
			parts := map[fleettest.Part]bool{}
			for _, round := range flapping(extent, seed) {
				g.Expect(round).To(HaveLen(clusters))
				for _, faults := range round {
					parts[faults[0].Part] = true
				}
			}
			g.Expect(parts).To(HaveLen(want), "seed %d: %v", seed, parts)
		}
	}
}

// The short run breaks two parts of each cluster.
func TestTheShortDrawIsOneRound(t *testing.T) {
	for seed := range uint64(50) {
		g := NewWithT(t)
		rounds := drawn(short, seed)
		g.Expect(rounds).To(HaveLen(1), "seed %d", seed)
		for _, faults := range rounds[0] {
			g.Expect(faults).To(HaveLen(2), "seed %d", seed)
			g.Expect(faults[0].Part.Shared() || faults[1].Part.Shared()).To(BeFalse(), "seed %d", seed)
		}
	}
}

// What one run leaves out, others have: the seed decides which clusters, and so which activities, a part meets.
func TestPairsMeetEveryActivityInSomeRun(t *testing.T) {
	g := NewWithT(t)
	met := map[string]bool{}
	for seed := range uint64(50) {
		for turn, round := range pairs(rand.New(rand.NewPCG(seed, 0))) {
			for cluster, faults := range round {
				met[fmt.Sprint(faults[0].Part, faults[1].Part, activityOf(cluster, turn).name)] = true
			}
		}
	}
	g.Expect(met).To(HaveLen(15*len(activities)), "every two parts in the middle of everything")
}

func TestPairsAreOfAllPartsAndKinds(t *testing.T) {
	for seed := range uint64(50) {
		g := NewWithT(t)
		kinds, both := map[fleettest.Kind]bool{}, map[[2]fleettest.Part]bool{}
		for _, round := range pairs(rand.New(rand.NewPCG(seed, 0))) {
			for _, faults := range round {
				g.Expect(faults).To(HaveLen(2))
				a, b := faults[0], faults[1]
				kinds[a.Way.Kind()], kinds[b.Way.Kind()] = true, true
				both[[2]fleettest.Part{min(a.Part, b.Part), max(a.Part, b.Part)}] = true
			}
		}
		g.Expect(kinds).To(HaveLen(len(fleettest.Kinds)), "seed %d", seed)
		g.Expect(both).To(HaveLen(15), "seed %d: every two of the six processes: %v", seed, both)
	}
}

// In rounds for shared control planes, what is killed ends no stop. As drawn with seed 7, some would.
func TestNoKillEndsAStop(t *testing.T) {
	g := NewWithT(t)
	isTarget := func(part fleettest.Part) bool { return part == fleettest.TargetServer || part == fleettest.TargetEtcd }
	count := func(rounds []round) (mixed, faults int) {
		for _, one := range rounds {
			ways := map[fleettest.Way]bool{}
			for _, fault := range slices.Concat(one...) {
				faults++
				ways[fault.Way] = ways[fault.Way] || isTarget(fault.Part)
			}
			if ways[fleettest.Kill] && ways[fleettest.Stop] {
				mixed++
			}
		}
		return mixed, faults
	}
	for seed := range uint64(50) {
		rounds := slices.Concat(drawAll(whole, seed), drawFlapping(whole, seed))
		before, faults := count(rounds)
		if seed == 7 {
			g.Expect(before).To(BeNumerically(">", 0))
		}
		after, same := count(asBorne(rounds))
		g.Expect(after).To(BeZero(), "seed %d", seed)
		g.Expect(same).To(Equal(faults), "seed %d", seed)
	}
}
