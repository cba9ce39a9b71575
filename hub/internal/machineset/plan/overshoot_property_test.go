package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// overshootWorld is one set, as the hub's API server has it, and the hub that works on it.
type overshootWorld struct {
	limits OvershootLimits
	// asked is what the user wants, and generation how often that has changed.
	asked      int
	generation int64
	machines   int
	// frozen and reported are what the status says.
	frozen   bool
	reported MachinesSeen
	hub      ArrivalTracker
	// strangers: another client makes Machines in this overshootWorld.
	strangers bool
}

// look is a reconciliation; stored is false if the hub is killed before it has written the status.
func (w *overshootWorld) look(t *rapid.T, stored bool) {
	now := MachinesSeen{Machines: w.machines, Generation: w.generation}
	facts := OvershootFacts{Asked: w.asked, Machines: w.machines, Frozen: w.frozen, Grown: w.hub.Grown(now, w.reported)}
	frozen := w.limits.Frozen(facts)
	w.check(t, facts, frozen)
	created := 0
	switch {
	case frozen:
	case w.machines < w.asked:
		created = rapid.IntRange(0, w.asked-w.machines).Draw(t, "created") // The API server may refuse some.
	default:
		w.machines -= rapid.IntRange(0, w.machines-w.asked).Draw(t, "deleted")
	}
	w.machines += created
	w.hub.AddCreated(created)
	if !frozen || w.frozen {
		w.hub.Record(now, w.reported)
	}
	if stored {
		w.frozen, w.reported = frozen, now
	}
}

func (w *overshootWorld) check(t *rapid.T, facts OvershootFacts, frozen bool) {
	high, low := w.asked+w.limits.Up, w.asked+w.limits.Up-w.limits.Down
	switch {
	case frozen && !w.strangers:
		t.Fatalf("froze although only the user and the set itself were at work: %+v", facts)
	case frozen && !w.frozen && w.machines < high:
		t.Fatalf("froze below high: %+v", facts)
	case !frozen && w.frozen && w.machines > low:
		t.Fatalf("thawed above low: %+v", facts)
	case frozen && w.machines <= low:
		t.Fatalf("stayed frozen at low: %+v", facts)
	}
}

func drawOvershootWorld(t *rapid.T, strangers bool) *overshootWorld {
	up := rapid.IntRange(1, 6).Draw(t, "up")
	return &overshootWorld{limits: OvershootLimits{Up: up, Down: rapid.IntRange(1, up).Draw(t, "down")}, generation: 1, strangers: strangers}
}

func (w *overshootWorld) scale(t *rapid.T) {
	w.asked = rapid.IntRange(0, 30).Draw(t, "asked")
	w.generation++
}

func (w *overshootWorld) lose(t *rapid.T) {
	w.machines -= rapid.IntRange(0, w.machines).Draw(t, "lost")
}

func TestWithoutStrangersNothingEverFreezes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawOvershootWorld(t, false)
		t.Repeat(map[string]func(*rapid.T){
			"look":    func(t *rapid.T) { w.look(t, true) },
			"unsaid":  func(t *rapid.T) { w.look(t, false) },
			"scale":   w.scale,
			"lose":    w.lose,
			"restart": func(*rapid.T) { w.hub = ArrivalTracker{} },
		})
	})
}

func TestStrangersFreezeAndTheMarksHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawOvershootWorld(t, true)
		t.Repeat(map[string]func(*rapid.T){
			"look":      func(t *rapid.T) { w.look(t, true) },
			"scale":     w.scale,
			"lose":      w.lose,
			"restart":   func(*rapid.T) { w.hub = ArrivalTracker{} },
			"strangers": func(t *rapid.T) { w.machines += rapid.IntRange(1, 12).Draw(t, "strangers") },
		})
	})
}

// However the hub fares meanwhile, as many strangers as high takes are not overlooked.
func TestNoOvershootIsOverlooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawOvershootWorld(t, true)
		w.scale(t)
		w.machines = w.asked
		w.look(t, true)
		w.look(t, true)
		w.machines += w.limits.Up + rapid.IntRange(0, 5).Draw(t, "more")
		for range rapid.IntRange(0, 3).Draw(t, "lost writes") {
			w.look(t, false)
			if rapid.Bool().Draw(t, "restart") {
				w.hub = ArrivalTracker{}
			}
		}
		w.look(t, true)
		if !w.frozen || w.machines < w.asked+w.limits.Up {
			t.Fatalf("overlooked: %+v", w)
		}
	})
}
