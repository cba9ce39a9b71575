package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// env is a monitor whose API servers answer as the test says, by a fake clock.
type env struct {
	*Monitor
	clock       *clocktesting.FakeClock
	hub, target atomic.Pointer[error]
	// order is the reason of a person's freeze, nil without one.
	order atomic.Pointer[string]
}

func newEnv(t *testing.T) *env {
	t.Helper()
	w := &env{clock: clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	answer := func(of *atomic.Pointer[error]) Probe {
		return func(context.Context) error {
			if err := of.Load(); err != nil {
				return *err
			}
			return nil
		}
	}
	monitor, err := NewMonitor(Options{
		Probes: map[Scope]Probe{Hub: answer(&w.hub), Target: answer(&w.target)},
		Ordered: func() (string, bool) {
			if reason := w.order.Load(); reason != nil {
				return *reason, true
			}
			return "", false
		},
		Policy: testPolicy, Pace: Pace{Interval: 5 * time.Second, FastInterval: time.Second, Timeout: 5 * time.Second},
		Runtime: poll.Runtime{Clock: w.clock}, Metrics: NewMetrics(prometheus.NewRegistry()),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Monitor = monitor
	return w
}

// run starts the monitor and returns a function that lets time pass.
func (w *env) run(t *testing.T) (pass func(time.Duration)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func(d time.Duration) {
		for ; d > 0; d -= time.Second {
			// Two probes and the announcer wait for the clock.
			NewWithT(t).Eventually(w.clock.Waiters).Should(BeNumerically(">=", 3), "probes wait for the clock")
			w.clock.Step(min(d, time.Second))
		}
		NewWithT(t).Eventually(w.clock.Waiters).Should(BeNumerically(">=", 3), "probes wait for the clock")
	}
}

func refuse(of *atomic.Pointer[error], err error) { of.Store(&err) }

func TestMonitor(t *testing.T) {
	t.Run("should be frozen from the start and thaw when both have answered three times", func(t *testing.T) {
		g, w := NewWithT(t), newEnv(t)
		g.Expect(w.State()).To(And(HaveField("Frozen", true), HaveField("Reason", v1alpha1.ReasonStarting)))
		refuse(&w.target, syscall.ECONNREFUSED)
		pass := w.run(t)
		pass(10 * time.Second)
		state := w.State()
		g.Expect(state).To(And(HaveField("Frozen", true), HaveField("Reason", v1alpha1.ReasonStarting)))
		g.Expect(state.Message).To(ContainSubstring("target API server: last probe Refused"))
		g.Expect(state.Message).NotTo(ContainSubstring("hub"), "the hub has answered")
		pass(testPolicy.After)
		g.Expect(w.State().Endpoints[1]).To(HaveField("Reason", v1alpha1.ReasonUnreachable), "not answering for that long is no start any more")
		g.Expect(w.State().Reason).To(Equal(v1alpha1.ReasonStarting), "the agent has lost nothing that it had")
		w.target.Store(nil)
		pass(4 * time.Second)
		g.Expect(w.State()).To(And(HaveField("Frozen", false), HaveField("Reason", v1alpha1.ReasonNotFrozen)))
		g.Expect(w.Check()).To(Succeed())
	})
	t.Run("should thaw within three seconds of a start at which all answer", func(t *testing.T) {
		g, w := NewWithT(t), newEnv(t)
		w.run(t)(3 * time.Second)
		g.Expect(w.Check()).To(Succeed())
	})
	t.Run("should freeze when the hub is away for as long as the policy says, tell subscribers, and thaw again", func(t *testing.T) {
		g, w := NewWithT(t), newEnv(t)
		pass := w.run(t)
		changes := w.Subscribe()
		pass(3 * time.Second)
		g.Eventually(changes).Should(Receive(), "the thaw")
		refuse(&w.hub, context.DeadlineExceeded)
		pass(24 * time.Second)
		g.Expect(w.Check()).To(Succeed(), "the hub has not been away for long enough")
		pass(12 * time.Second)
		var frozen *Error
		g.Expect(errors.As(w.Check(), &frozen)).To(BeTrue())
		g.Expect(frozen.Reason).To(Equal(v1alpha1.ReasonHubUnreachable))
		g.Expect(frozen.Message).To(ContainSubstring("Timeout"))
		g.Eventually(changes).Should(Receive(), "the freeze")
		w.hub.Store(nil)
		pass(4 * time.Second)
		g.Eventually(changes).Should(Receive(), "the second thaw")
		g.Expect(w.Check()).To(Succeed())
	})
	t.Run("should be frozen for as long as a person wants it", func(t *testing.T) {
		g, w := NewWithT(t), newEnv(t)
		pass := w.run(t)
		changes := w.Subscribe()
		pass(4 * time.Second)
		g.Eventually(changes).Should(Receive(), "the thaw")
		reason := "maintenance"
		w.order.Store(&reason)
		var frozen *Error
		g.Expect(errors.As(w.Check(), &frozen)).To(BeTrue(), "it needs no probe")
		g.Expect(frozen.Reason).To(Equal(v1alpha1.ReasonManualFreeze))
		g.Expect(frozen.Message).To(ContainSubstring("maintenance"))
		pass(6 * time.Second)
		g.Eventually(changes).Should(Receive(), "the freeze")
		w.order.Store(nil)
		g.Expect(w.Check()).To(Succeed())
		pass(6 * time.Second)
		g.Eventually(changes).Should(Receive(), "the second thaw")
	})
	t.Run("should freeze at a probe that never comes back", func(t *testing.T) {
		g, w := NewWithT(t), newEnv(t)
		for range testPolicy.Successes {
			w.Observe(Hub, nil)
			w.Observe(Target, nil)
		}
		g.Expect(w.Check()).To(Succeed())
		w.clock.Step(testPolicy.After)
		g.Expect(w.Check()).To(MatchError(ContainSubstring(v1alpha1.ReasonHubUnreachable)))
	})
}

func TestMonitorNeedsBothProbes(t *testing.T) {
	_, err := NewMonitor(Options{Probes: map[Scope]Probe{Hub: func(context.Context) error { return nil }}, Policy: testPolicy})
	NewWithT(t).Expect(err).To(MatchError("freeze.Options: Probes of Hub and Target are required"))
}

func TestMetrics(t *testing.T) {
	g, w := NewWithT(t), newEnv(t)
	frozen := func(scope Scope, reason string) float64 {
		return testutil.ToFloat64(w.options.Metrics.frozen.WithLabelValues(string(scope), reason))
	}
	g.Expect(frozen(Hub, v1alpha1.ReasonStarting)).To(Equal(1.0))
	for range testPolicy.Successes {
		w.Observe(Hub, nil)
		w.Observe(Target, nil)
	}
	w.notifySubscribers()
	g.Expect(frozen(Hub, v1alpha1.ReasonStarting)).To(Equal(0.0))
	w.clock.Step(testPolicy.After)
	w.Observe(Target, syscall.ECONNREFUSED)
	w.notifySubscribers()
	g.Expect(frozen(Target, v1alpha1.ReasonUnreachable)).To(Equal(1.0))
	g.Expect(testutil.ToFloat64(w.options.Metrics.since)).To(BeNumerically(">", 0))
	g.Expect(testutil.ToFloat64(w.options.Metrics.probes.WithLabelValues("target", "Refused"))).To(Equal(1.0))
}

func TestFrozenz(t *testing.T) {
	g, w := NewWithT(t), newEnv(t)
	w.Observe(Hub, nil)
	w.Observe(Target, syscall.ECONNREFUSED)

	text := httptest.NewRecorder()
	w.ServeHTTP(text, httptest.NewRequest(http.MethodGet, "/frozenz", nil))
	g.Expect(text.Code).To(Equal(200), "being frozen is no fault")
	g.Expect(strings.Split(text.Body.String(), "\n")).To(ConsistOf(
		HavePrefix("frozen since 2026-01-01T00:00:00Z: Starting: "),
		And(HavePrefix("hub"), ContainSubstring("last probe OK"), ContainSubstring("1 good answers in a row")),
		And(HavePrefix("target"), ContainSubstring("last probe Refused"), ContainSubstring("connection refused")),
		"",
	))

	// Everything that keeps the agent frozen is told, not only what explains it.
	reason := "maintenance"
	w.order.Store(&reason)
	w.options.Blockers = []BlockerFunc{func() (Blocker, bool) {
		return Blocker{Reason: v1alpha1.ReasonLeaseNotHeld, Message: "lapsed", Since: w.clock.Now()}, true
	}}
	text = httptest.NewRecorder()
	w.ServeHTTP(text, httptest.NewRequest(http.MethodGet, "/frozenz", nil))
	g.Expect(strings.Split(text.Body.String(), "\n")).To(ContainElements(
		"cluster ManualFreeze: frozen by a user", "agent   LeaseNotHeld since 2026-01-01T00:00:00Z: lapsed"))

	inJSON := httptest.NewRecorder()
	w.ServeHTTP(inJSON, httptest.NewRequest(http.MethodGet, "/frozenz?format=json", nil))
	var state State
	g.Expect(json.Unmarshal(inJSON.Body.Bytes(), &state)).To(Succeed())
	g.Expect(state.Frozen).To(BeTrue())
	g.Expect(state.Endpoints).To(HaveLen(2))
	g.Expect(state.Ordered).To(BeTrue())
	g.Expect(state.Blockers).To(ConsistOf(HaveField("Reason", v1alpha1.ReasonLeaseNotHeld)))
}
