package freeze

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestAnAgentThatIsBarredIsFrozen(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var bar atomic.Pointer[Blocker]
	never := func(context.Context) error { return errors.New("not asked") }
	metrics := NewMetrics(prometheus.NewRegistry())
	m, err := NewMonitor(Options{
		Probes: map[Scope]Probe{Hub: never, Target: never}, Policy: testPolicy,
		Blockers: []BlockerFunc{func() (Blocker, bool) {
			if b := bar.Load(); b != nil {
				return *b, true
			}
			return Blocker{}, false
		}},
		Pace: Pace{Interval: time.Second, FastInterval: time.Second, Timeout: time.Second}, Runtime: poll.Runtime{Clock: clock}, Metrics: metrics,
	})
	g.Expect(err).NotTo(HaveOccurred())
	healthy := func() {
		for range testPolicy.Successes {
			m.Observe(Hub, nil)
			m.Observe(Target, nil)
		}
	}
	another := &Blocker{Reason: v1alpha1.ReasonAnotherAgent, Message: "m", Since: clock.Now().Add(-time.Hour)}
	lapsed := &Blocker{Reason: v1alpha1.ReasonLeaseNotHeld, Message: "l", Since: clock.Now()}

	// One that stands by says so, also while it sees nothing yet; what it has lost explains nothing then.
	bar.Store(lapsed)
	g.Expect(m.State().Reason).To(Equal(v1alpha1.ReasonStarting))
	bar.Store(another)
	g.Expect(m.State()).To(And(HaveField("Reason", v1alpha1.ReasonAnotherAgent), HaveField("Message", "m"), HaveField("Since", another.Since)))
	healthy()
	var frozen *Error
	g.Expect(errors.As(m.Check(), &frozen)).To(BeTrue())
	g.Expect(frozen.Reason).To(Equal(v1alpha1.ReasonAnotherAgent))
	bar.Store(lapsed)
	g.Expect(m.State().Reason).To(Equal(v1alpha1.ReasonLeaseNotHeld))

	m.notifySubscribers()
	g.Expect(testutil.ToFloat64(metrics.frozen.WithLabelValues("agent", v1alpha1.ReasonLeaseNotHeld))).To(Equal(1.0))
	g.Expect(testutil.ToFloat64(metrics.frozen.WithLabelValues("agent", v1alpha1.ReasonAnotherAgent))).To(Equal(0.0))
	bar.Store(nil)
	g.Expect(m.Check()).To(Succeed(), "asked at the instant, not at an event")

	// A world that was seen and is gone explains a freeze first, unless the hub has shut the agent out.
	bar.Store(another)
	denied := &Blocker{Reason: v1alpha1.ReasonDenied, Message: "d", Since: clock.Now()}
	clock.Step(testPolicy.After)
	g.Expect(m.State()).To(And(HaveField("Reason", v1alpha1.ReasonHubUnreachable), HaveField("Message", Not(HaveSuffix("; m")))))
	for _, reason := range []string{v1alpha1.ReasonHubChanged, v1alpha1.ReasonHubRestored, v1alpha1.ReasonHubEmpty} {
		bar.Store(&Blocker{Reason: reason, Message: "a person has to look", Since: clock.Now()})
		g.Expect(m.State()).To(And(HaveField("Reason", v1alpha1.ReasonHubUnreachable), HaveField("Message", HaveSuffix("; a person has to look"))), reason)
	}
	bar.Store(denied)
	g.Expect(m.State()).To(And(HaveField("Reason", v1alpha1.ReasonDenied), HaveField("Message", "d"), HaveField("Since", denied.Since)))
}
