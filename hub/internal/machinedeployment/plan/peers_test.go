package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// group are worlds that share one surge.
type group []*world

func newGroup(worlds ...*world) group {
	g := group(worlds)
	for i, w := range g {
		w.in.Strategy.RollingUpdate.SurgeGroup = "zones"
		w.peers = func() []*world { return slices.Concat(g[:i], g[i+1:]) }
	}
	return g
}

// peer is what others see of the deployment.
func (w *world) peer() Peer {
	p := Peer{Name: w.name, Replicas: w.in.Replicas}
	for _, s := range w.sets {
		p.Machines += max(s.replicas, len(s.machines))
		p.Unseen = p.Unseen || s.seen < s.generation
	}
	return p
}

// beyond is how many Machines there are beyond the replicas of each, and may be at any moment.
func (g group) beyond() (now, soon int) {
	for _, w := range g {
		machines, _ := w.counts()
		now += max(machines-w.in.Replicas, 0)
		soon += max(newWork(w.input()).countOccupied()-w.in.Replicas, 0)
	}
	return now, soon
}

// most is the largest surge that one of them allows.
func (g group) most() int {
	most := 0
	for _, w := range g {
		most = max(most, w.input().maxSurge())
	}
	return most
}

// step lets a random deployment, controller or workload cluster do something; it reports false when nothing is left.
func (g group) step(choose func(n int, what string) int) bool {
	left := slices.Clone(g)
	for len(left) > 0 {
		i := choose(len(left), "whose turn")
		if left[i].step() {
			return true
		}
		left = slices.Delete(left, i, i+1)
	}
	return false
}

// run continues until nothing is left to do. At no moment there are more Machines beyond replicas than most, and of no
// deployment fewer available ones than it allows.
func (g group) run(choose func(n int, what string) int, fatal func(string, ...any), most int) {
	least := make([]int, len(g))
	for i, w := range g {
		_, least[i] = w.bounds()
	}
	for i := 0; g.step(choose); i++ {
		if now, soon := g.beyond(); now > most {
			fatal("%d machines beyond replicas (%d soon), with %d allowed\n%s", now, soon, most, g.log())
		}
		for i, w := range g {
			w.check(1<<30, least[i])
		}
		if i > 20000 {
			fatal("does not end\n%s", g.log())
		}
	}
}

func (g group) log() string {
	var text []string
	for _, w := range g {
		text = append(text, w.name+":", strings.Join(w.log, "\n"))
	}
	return strings.Join(text, "\n")
}

// Whatever order they are rolled in, however their controllers die, and whatever they start with.
// Edge case: MCM #798: one surge over several pools. Also: TestGroupWaitsForOneThatIsStuckAndSaysSo; hub/internal/machinedeployment "MCM #798: one surge over several pools", "MCM #798: two do not take the last place at once"; test/integration/lifecycle "should never have more surge than one of them may, and all end (MCM #798)".
func TestGroupNeverExceedsItsSurgeAndEnds(t *testing.T) {
	for name, start := range map[string]func(*rapid.T) *world{
		"all available at first": func(t *rapid.T) *world { return drawRolled(t, drawRolling(t)) },
		"in any state":           func(t *rapid.T) *world { return draw(t, drawRolling(t)) },
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			worlds := make([]*world, rapid.IntRange(2, 4).Draw(t, "deployments"))
			for i := range worlds {
				worlds[i] = start(t)
				worlds[i].name = fmt.Sprintf("pool-%d", i)
				worlds[i].crashes = rapid.IntRange(0, 3).Draw(t, "crashes")
			}
			g := newGroup(worlds...)
			_, before := g.beyond()
			g.run(worlds[0].choose, t.Fatalf, max(before, g.most()))
			for _, w := range g {
				w.rested()
				w.rolled()
			}
			if now, soon := g.beyond(); now != 0 || soon != 0 {
				t.Fatalf("%d machines are left beyond replicas (%d soon)\n%s", now, soon, g.log())
			}
		}))
	}
}

// Users scale, change templates and take deployments out of the group and back, and Machines fail, at any moment. The
// surge cannot be promised while that continues, but each rollout ends.
func TestGroupEndsWhateverUsersDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		worlds := make([]*world, rapid.IntRange(2, 3).Draw(t, "deployments"))
		for i := range worlds {
			worlds[i] = draw(t, drawRolling(t))
			worlds[i].name = fmt.Sprintf("pool-%d", i)
		}
		g := newGroup(worlds...)
		changes := rapid.IntRange(0, 8).Draw(t, "changes")
		for i := 0; g.step(worlds[0].choose) || changes > 0; i++ {
			if changes > 0 && rapid.IntRange(0, 5).Draw(t, "change now") == 0 {
				changes--
				w := rapid.SampledFrom(worlds).Draw(t, "changed deployment")
				strategy := w.in.Strategy
				w.disturb(t)
				w.in.Strategy = strategy
			}
			if i > 20000 {
				t.Fatalf("does not end\n%s", g.log())
			}
		}
		for _, w := range g {
			w.in.Paused = false
		}
		_, before := g.beyond()
		g.run(worlds[0].choose, t.Fatalf, max(before, g.most()))
		for _, w := range g {
			w.rested()
			w.rolled()
		}
	})
}

// A deployment whose new Machines never come up keeps the surge that it has. The others wait, say for whom, and continue
// when it goes back.
func TestGroupWaitsForOneThatIsStuckAndSaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		worlds := make([]*world, rapid.IntRange(2, 4).Draw(t, "deployments"))
		for i := range worlds {
			worlds[i] = drawRolled(t, rolling("1", "0"))
			if i == 0 && len(worlds[i].sets[0].machines) == 0 {
				// The one that is to be stuck needs something to roll.
				worlds[i].sets, worlds[i].revision = nil, 0
				worlds[i].filled(1)
			}
			worlds[i].name = fmt.Sprintf("pool-%d", i)
			worlds[i].in.Replicas = len(worlds[i].sets[0].machines)
		}
		g := newGroup(worlds...)
		stuck := g[0]
		stuck.current = stuck.add(1)
		broken := stuck.machine(stuck.current)
		broken.broken = true
		stuck.current.machines = append(stuck.current.machines, broken)
		g.run(stuck.choose, t.Fatalf, 1)
		for _, w := range g[1:] {
			p := Decide(w.input())
			if w.in.Replicas > 0 && !slices.Equal(p.HeldBy, []string{stuck.name}) {
				t.Fatalf("%s with %d replicas is held by %v\n%s", w.name, w.in.Replicas, p.HeldBy, g.log())
			}
		}
		if p := Decide(stuck.input()); len(p.HeldBy) > 0 {
			t.Fatalf("the one that is stuck is held by %v", p.HeldBy)
		}
		stuck.current = stuck.sets[0]
		g.run(stuck.choose, t.Fatalf, 1)
		for _, w := range g {
			w.rested()
			w.rolled()
		}
	})
}

var sharing = map[string]struct {
	peers  []Peer
	in     Input
	want   string
	held   bool
	heldBy string
}{
	"takes what the peers leave": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 3, Strategy: rolling("2", "0"), Old: []Set{set("old", 3, 3, 3)}}, "create 1", true, "",
	},
	"takes nothing when they leave nothing": {
		[]Peer{{Name: "b", Replicas: 3, Machines: 4}, {Name: "a", Replicas: 3, Machines: 4}, {Name: "c", Replicas: 3, Machines: 3}},
		Input{Replicas: 3, Strategy: rolling("2", "0"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "", true, "a b",
	},
	"what one peer lacks is no surge for another": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}, {Name: "b", Replicas: 3, Machines: 1}},
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "", true, "a",
	},
	"a peer of unknown size leaves nothing, and that is not told": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 3, Unseen: true}},
		Input{Replicas: 3, Strategy: rolling("2", "0"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "", true, "",
	},
	"a percentage is of all replicas": {
		[]Peer{{Name: "a", Replicas: 17, Machines: 18}},
		Input{Replicas: 3, Strategy: rolling("20%", "0"), Old: []Set{set("old", 3, 3, 3)}}, "create 3", false, "",
	},
	"takes away first what may be unavailable": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 3, Strategy: rolling("1", "1"), Old: []Set{set("old", 3, 3, 3)}}, "create 0, old 3→2", true, "",
	},
	"makes good what it took away": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 3, Strategy: rolling("1", "1"), New: current(0, 0, 0), Old: []Set{set("old", 2, 2, 2)}}, "new 0→1", true, "",
	},
	"scales up": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 5}},
		Input{Replicas: 9, Strategy: rolling("1", "0"), New: current(3, 3, 3)}, "new 3→9", false, "",
	},
	"scales up amid a rollout, in proportion": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 6, Strategy: rolling("1", "0"), New: set("new", 2, 2, 2).sizedForPointer(4), Old: []Set{set("old", 2, 2, 2).sizedFor(4)}},
		"old 2→3, new 2→3", false, "",
	},
	"scales up while paused, one set": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 5, Paused: true, Strategy: rolling("1", "0"), New: current(3, 3, 3)}, "new 3→5", false, "",
	},
	"makes nothing good beyond replicas while paused, one set": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 5, Paused: true, Strategy: rolling("1", "0"), New: new(set("new", 3, 3, 3).deleting(2))}, "", true, "",
	},
	"makes nothing good beyond replicas while paused, several sets": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 4, Paused: true, Strategy: rolling("1", "0"), New: current(1, 1, 1), Old: []Set{set("old", 2, 2, 2).deleting(1)}}, "", true, "",
	},
	"breaks a deadlock": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 2)}}, "remove old-0", true, "",
	},
	"gives nothing back that it has when a peer took more than this one would": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 5}},
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(1, 1, 0), Old: []Set{set("old", 3, 3, 3)}}, "", false, "",
	},
	"has its own to wait for": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 4, Strategy: rolling("2", "0"), New: current(1, 1, 0), Old: []Set{set("old", 4, 4, 4)}}, "", true, "",
	},
	"has its own to wait for, beside peers that use all": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 5}},
		Input{Replicas: 4, Strategy: rolling("2", "1"), New: current(1, 1, 0), Old: []Set{set("old", 3, 3, 3)}}, "", true, "",
	},
	"peers that use a part, and one of unknown size": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}, {Name: "b", Replicas: 3, Machines: 3, Unseen: true}},
		Input{Replicas: 3, Strategy: rolling("2", "0"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "", true, "",
	},
	"scales up amid a rollout no further than replicas while others go": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{
			Replicas: 6, Strategy: rolling("1", "0"), New: set("new", 2, 2, 2).sizedForPointer(4),
			Old: []Set{set("old", 2, 2, 2).deleting(2).sizedFor(4)},
		}, "", true, "",
	},
	"does not wait once it has rolled out": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 3, Strategy: rolling("1", "0"), New: current(3, 3, 3)}, "", false, "",
	},
	"does not wait with strategies that have no surge": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 3, Strategy: rolling("0", "1"), New: current(1, 1, 0), Old: []Set{set("old", 2, 2, 2)}}, "", false, "",
	},
	"is frozen": {
		[]Peer{{Name: "a", Replicas: 3, Machines: 4}},
		Input{Replicas: 3, Frozen: true, Strategy: rolling("1", "0"), New: current(0, 0, 0), Old: []Set{set("old", 3, 3, 3)}}, "", false, "",
	},
}

func TestDecideWithPeers(t *testing.T) {
	for name, test := range sharing {
		t.Run(name, func(t *testing.T) {
			test.in.Peers = test.peers
			p := Decide(test.in)
			if got := describe(p); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if held := strings.Join(p.HeldBy, " "); p.Held != test.held || held != test.heldBy {
				t.Errorf("held %t by %q, want %t by %q", p.Held, held, test.held, test.heldBy)
			}
		})
	}
}

// A group of one is no group.
func TestAloneInAGroupNothingChanges(t *testing.T) {
	for name, test := range decisions {
		if test.in.Strategy.RollingUpdate == nil {
			continue
		}
		bounds := *test.in.Strategy.RollingUpdate
		bounds.SurgeGroup = "zones"
		in := test.in
		in.Strategy.RollingUpdate = &bounds
		if p := Decide(in); describe(p) != test.want || p.Held {
			t.Errorf("%s: got %q, held %t", name, describe(p), p.Held)
		}
	}
}
