package freeze

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// relistingWorld is a monitor that wants a list after every freeze, whose probes a test makes by hand.
func relistingWorld(t *testing.T) *env {
	t.Helper()
	w := newEnv(t)
	w.options.Relist = true
	w.freezes, w.caused, w.listed = 0, false, false
	w.Refresh()
	return w
}

func (w *env) healthy() {
	for range testPolicy.Successes {
		w.Observe(Hub, nil)
		w.Observe(Target, nil)
	}
}

func TestAListStandsBetweenAFreezeAndTheThaw(t *testing.T) {
	g, w := NewWithT(t), relistingWorld(t)
	begun := w.clock.Now()
	_, due := w.RelistDue()
	g.Expect(due).To(BeFalse(), "nothing is proven healthy yet")
	w.clock.Step(3 * time.Second)
	w.healthy()
	first, due := w.RelistDue()
	g.Expect(due).To(BeTrue())
	g.Expect(w.State()).To(And(HaveField("Frozen", true), HaveField("Reason", v1alpha1.ReasonRelisting), HaveField("Since", begun)))
	var frozen *Error
	g.Expect(errors.As(w.Check(), &frozen)).To(BeTrue())
	w.ReportRelistProgress(first, "3 to go")
	g.Expect(w.State().Message).To(Equal("3 to go"))
	w.clock.Step(7 * time.Second)
	w.CompleteRelist(first)
	g.Expect(w.Check()).To(Succeed())
	g.Expect(w.FrozenSince(begun)).To(Equal(10*time.Second), "the time of the list counts as frozen")
	_, due = w.RelistDue()
	g.Expect(due).To(BeFalse(), "at rest nothing is listed")

	// Every freeze wants its own list.
	w.clock.Step(testPolicy.After)
	g.Expect(w.State().Reason).To(Equal(v1alpha1.ReasonHubUnreachable))
	w.healthy()
	second, due := w.RelistDue()
	g.Expect(due).To(BeTrue())
	g.Expect(second).NotTo(Equal(first))
	w.CompleteRelist(first)
	g.Expect(w.State().Reason).To(Equal(v1alpha1.ReasonRelisting), "a list from before the last freeze thaws nothing")
	w.ReportRelistProgress(first, "an old message")
	g.Expect(w.State().Message).NotTo(ContainSubstring("old"))

	// What comes up while the world is listed makes that list worthless.
	reason := "maintenance"
	w.order.Store(&reason)
	w.CompleteRelist(second)
	g.Expect(w.State().Reason).To(Equal(v1alpha1.ReasonManualFreeze))
	w.order.Store(nil)
	w.CompleteRelist(second)
	g.Expect(w.State().Reason).To(Equal(v1alpha1.ReasonRelisting))
	third, _ := w.RelistDue()
	w.CompleteRelist(third)
	g.Expect(w.Check()).To(Succeed())
}

// A freeze that comes and goes between two looks at the reason has to start a list all the same.
func TestASecondFreezeOfTheSameReasonIsTold(t *testing.T) {
	g, w := NewWithT(t), relistingWorld(t)
	changes := w.Subscribe()
	w.healthy()
	w.notifySubscribers()
	g.Expect(changes).To(Receive())
	w.notifySubscribers()
	g.Expect(changes).NotTo(Receive(), "nothing has changed")
	w.clock.Step(testPolicy.After)
	w.healthy()
	w.notifySubscribers()
	g.Expect(w.State().Reason).To(Equal(v1alpha1.ReasonRelisting))
	g.Expect(changes).To(Receive())
}

func TestWhatWasDecidedBeforeAThawIsNotDoneAfterIt(t *testing.T) {
	g, w := NewWithT(t), relistingWorld(t)
	gate := NewGate(w.Monitor, NewMetrics(prometheus.NewRegistry()))
	inFreeze := w.Deciding(context.Background())
	w.healthy()
	n, _ := w.RelistDue()
	w.CompleteRelist(n)
	before := w.Deciding(context.Background())
	g.Expect(gate.checkPassage(before, "Delete")).To(Succeed())
	g.Expect(gate.checkPassage(context.Background(), "Delete")).To(Succeed())
	var refused *Error
	g.Expect(errors.As(gate.checkPassage(inFreeze, "Delete"), &refused)).To(BeTrue(), "decided while frozen, done after the thaw")
	g.Expect(refused.Reason).To(Equal("Outdated"))

	w.clock.Step(testPolicy.After)
	g.Expect(gate.checkPassage(before, "Delete")).NotTo(Succeed(), "frozen")
	w.healthy()
	n, _ = w.RelistDue()
	w.CompleteRelist(n)
	g.Expect(w.Check()).To(Succeed())
	g.Expect(errors.As(gate.checkPassage(before, "Delete"), &refused)).To(BeTrue(), "decided before the freeze, done after it")
	g.Expect(gate.checkPassage(w.Deciding(context.Background()), "Delete")).To(Succeed())
}

func TestEveryReasonIsCounted(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	metrics := NewMetrics(prometheus.NewRegistry())
	bars := []Blocker{{Reason: "First", Since: clock.Now()}, {Reason: "Second", Since: clock.Now()}}
	never := func(context.Context) error { return errors.New("not asked") }
	var barriers []BlockerFunc
	for i := range bars {
		barriers = append(barriers, func() (Blocker, bool) { return bars[i], bars[i].Reason != "" })
	}
	m, err := NewMonitor(Options{
		Probes: map[Scope]Probe{Hub: never, Target: never}, Policy: testPolicy, Blockers: barriers, Relist: true,
		Pace: Pace{Interval: time.Second, FastInterval: time.Second, Timeout: time.Second}, Runtime: poll.Runtime{Clock: clock}, Metrics: metrics,
	})
	g.Expect(err).NotTo(HaveOccurred())
	shown := func(scope, reason string) float64 {
		return testutil.ToFloat64(metrics.frozen.WithLabelValues(scope, reason))
	}
	seconds := func(reason string) float64 { return testutil.ToFloat64(metrics.seconds.WithLabelValues(reason)) }
	look := func(after time.Duration) {
		clock.Step(after)
		m.notifySubscribers()
	}
	g.Expect(shown("hub", v1alpha1.ReasonStarting)).To(Equal(1.0))
	g.Expect(shown("agent", "Second")).To(Equal(1.0), "also what does not explain the freeze")
	look(5 * time.Second)
	for range testPolicy.Successes {
		m.Observe(Hub, nil)
		m.Observe(Target, nil)
	}
	look(0)
	g.Expect(seconds(v1alpha1.ReasonStarting)).To(Equal(5.0))
	g.Expect(m.State().Reason).To(Equal("First"), "the first bar explains")
	look(2 * time.Second)
	bars[0].Reason = ""
	look(0)
	g.Expect([]float64{shown("agent", "First"), shown("agent", "Second")}).To(Equal([]float64{0, 1}))
	bars[1].Reason = ""
	look(0)
	g.Expect(shown("agent", v1alpha1.ReasonRelisting)).To(Equal(1.0))
	look(4 * time.Second)
	n, _ := m.RelistDue()
	m.CompleteRelist(n)
	look(0)
	g.Expect([]float64{shown("agent", "First"), shown("agent", "Second"), shown("agent", v1alpha1.ReasonRelisting), shown("hub", v1alpha1.ReasonStarting)}).
		To(Equal([]float64{0, 0, 0, 0}))
	g.Expect([]float64{seconds("First"), seconds(v1alpha1.ReasonRelisting)}).To(Equal([]float64{2, 4}))

	// The agent looks late: the freeze started when the last good answer became too old.
	look(testPolicy.After + 3*time.Second)
	g.Expect(seconds(v1alpha1.ReasonHubUnreachable)).To(BeNumerically(">", 0))
	g.Expect(testutil.ToFloat64(metrics.freezes.WithLabelValues(v1alpha1.ReasonHubUnreachable))).To(Equal(1.0))
	g.Expect(testutil.ToFloat64(metrics.freezes.WithLabelValues(v1alpha1.ReasonStarting))).To(Equal(1.0))
}
