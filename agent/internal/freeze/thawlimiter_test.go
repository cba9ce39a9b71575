package freeze

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// thaws is a ThawLimiter whose thaws a test makes.
type thaws struct {
	*ThawLimiter
	clock  *clocktesting.FakeClock
	number uint64
	at     time.Time
	frozen time.Duration
}

func (w *thaws) FrozenSince(time.Time) time.Duration { return w.frozen }

// Thaw implements Thaws.
func (w *thaws) Thaw() (uint64, time.Time) { return w.number, w.at }

func (w *thaws) thaw() { w.number, w.at = w.number+1, w.clock.Now() }

func newThaws(perMinute int, period time.Duration) *thaws {
	w := &thaws{clock: clocktesting.NewFakeClock(epoch)}
	pace, err := NewThawLimiter(ThawLimiterOptions{
		PerMinute: perMinute, Period: period, Thaws: w, Clock: w.clock, Metrics: NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		panic(err)
	}
	w.ThawLimiter = pace
	return w
}

func (w *thaws) wait(machine types.UID) time.Duration {
	wait, _ := w.Take(machine)
	return wait
}

func TestPace(t *testing.T) {
	t.Run("should let as many through at once as the limit says, and the next ones in turn", func(t *testing.T) {
		g, w := NewWithT(t), newThaws(2, 10*time.Minute)
		w.thaw()
		g.Expect([]time.Duration{w.wait("a"), w.wait("b"), w.wait("c"), w.wait("d"), w.wait("e")}).
			To(Equal([]time.Duration{0, 0, time.Minute, time.Minute, 2 * time.Minute}))
		w.clock.Step(20 * time.Second)
		g.Expect(w.wait("c")).To(Equal(40*time.Second), "asking again changes no place")
		g.Expect(w.wait("a")).To(BeZero(), "once let through")
		w.clock.Step(40 * time.Second)
		g.Expect([]time.Duration{w.wait("c"), w.wait("d"), w.wait("e")}).To(Equal([]time.Duration{0, 0, time.Minute}))
		g.Expect(testutil.ToFloat64(w.Metrics.limited)).To(Equal(3.0))
	})
	t.Run("should limit nothing before the first thaw and when the time after one is over", func(t *testing.T) {
		g, w := NewWithT(t), newThaws(1, 10*time.Minute)
		g.Expect([]time.Duration{w.wait("a"), w.wait("b")}).To(Equal([]time.Duration{0, 0}))
		w.thaw()
		w.clock.Step(9*time.Minute + 30*time.Second)
		g.Expect([]time.Duration{w.wait("c"), w.wait("d"), w.wait("e")}).To(Equal([]time.Duration{0, 30 * time.Second, 30 * time.Second}), "no Machine waits longer than the limit holds")
		w.clock.Step(30 * time.Second)
		for i := range 100 {
			g.Expect(w.wait(types.UID(fmt.Sprint(i)))).To(BeZero())
		}
		g.Expect(w.turns).To(HaveLen(3), "at other times nothing is remembered")
	})
	t.Run("should not let more through because of one more thaw", func(t *testing.T) {
		g, w := NewWithT(t), newThaws(2, 10*time.Minute)
		w.thaw()
		g.Expect([]time.Duration{w.wait("a"), w.wait("b"), w.wait("c")}).To(Equal([]time.Duration{0, 0, time.Minute}))
		w.clock.Step(30 * time.Second)
		w.thaw()
		g.Expect(w.wait("d")).To(Equal(30*time.Second), "the place of one that has not been let through is free again")
		g.Expect(w.wait("a")).To(Equal(30*time.Second), "each thaw asks again")
		g.Expect(w.wait("c")).To(Equal(90 * time.Second))
	})
	t.Run("should not hold up what was made since the thaw, until the next one", func(t *testing.T) {
		g, w := NewWithT(t), newThaws(1, 10*time.Minute)
		w.Created("before")
		w.thaw()
		for i := range 100 {
			id := types.UID(fmt.Sprint(i))
			w.Created(id)
			g.Expect(w.wait(id)).To(BeZero())
		}
		g.Expect([]time.Duration{w.wait("old"), w.wait("before")}).To(Equal([]time.Duration{0, time.Minute}), "what is new does not take a place in the queue")
		w.clock.Step(2 * time.Minute)
		w.thaw()
		g.Expect([]time.Duration{w.wait("0"), w.wait("1")}).To(Equal([]time.Duration{0, time.Minute}))
		w.clock.Step(10 * time.Minute)
		known := len(w.turns)
		w.Created("long after")
		g.Expect(w.turns).To(HaveLen(known), "at other times nothing is remembered")
	})
	t.Run("should tell how long a machine has waited, without what was frozen", func(t *testing.T) {
		g, w := NewWithT(t), newThaws(1, 10*time.Minute)
		w.thaw()
		w.Take("a")
		w.Take("b")
		w.clock.Step(40 * time.Second)
		_, waited := w.Take("b")
		g.Expect(waited).To(Equal(40 * time.Second))
		w.clock.Step(20 * time.Second)
		w.frozen = 5 * time.Second
		wait, waited := w.Take("b")
		g.Expect([]time.Duration{wait, waited}).To(Equal([]time.Duration{0, 55 * time.Second}))
		w.clock.Step(time.Hour)
		_, waited = w.Take("b")
		g.Expect(waited).To(Equal(55*time.Second), "it waits no more")
		_, waited = w.Take("a")
		g.Expect(waited).To(BeZero())
		w.Forget("b")
		g.Expect(w.turns).To(HaveLen(1))
	})
}

// However often the agent thaws and however many Machines ask: in no minute after a thaw more are let through than the
// limit says, and all are let through in the end.
func TestNoMinuteHasMoreThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		w := newThaws(limit, time.Hour)
		w.thaw()
		let := map[types.UID]uint64{}
		var times []time.Time
		machines := rapid.IntRange(1, 20).Draw(t, "machines")
		ask := func(i int) {
			id := types.UID(fmt.Sprint(i))
			if w.wait(id) > 0 || let[id] == w.number {
				return
			}
			let[id] = w.number
			times = append(times, w.clock.Now())
			if past := len(times) - 1 - limit; past >= 0 && times[past].Add(time.Minute).After(w.clock.Now()) {
				t.Fatalf("%d within a minute, want at most %d", limit+1, limit)
			}
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				w.thaw()
			case 1, 2, 3:
				w.clock.Step(time.Duration(rapid.IntRange(1, 50).Draw(t, "seconds")) * time.Second)
			default:
				ask(rapid.IntRange(0, machines-1).Draw(t, "machine"))
			}
		}
		w.thaw()
		for range 2*machines + 2 {
			for i := range machines {
				ask(i)
			}
			w.clock.Step(time.Minute)
		}
		for i := range machines {
			if let[types.UID(fmt.Sprint(i))] != w.number {
				t.Fatalf("machine %d waits forever", i)
			}
		}
	})
}
