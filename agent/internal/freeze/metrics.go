package freeze

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Scopes of hollowfleet_agent_frozen beside those of the API servers: the agent itself, and what a person has ordered for
// the cluster.
const (
	agentScope   = "agent"
	clusterScope = "cluster"
)

// blockerReasons are those of the agent's own blockers, and otherReasons those of API servers and people.
var (
	blockerReasons = []string{
		v1alpha1.ReasonAnotherAgent, v1alpha1.ReasonDenied, v1alpha1.ReasonLeaseNotHeld, v1alpha1.ReasonRelisting,
		v1alpha1.ReasonVersionSkew, v1alpha1.ReasonHubUnchecked, v1alpha1.ReasonHubChanged, v1alpha1.ReasonHubRestored, v1alpha1.ReasonHubEmpty,
	}
	otherReasons = []string{
		v1alpha1.ReasonStarting, v1alpha1.ReasonHubUnreachable, v1alpha1.ReasonTargetUnreachable, v1alpha1.ReasonHostUnreachable,
		v1alpha1.ReasonUndecodable, v1alpha1.ReasonManualFreeze,
	}
)

// Metrics of a Monitor and a Gate.
type Metrics struct {
	frozen  *prometheus.GaugeVec
	since   prometheus.Gauge
	seconds *prometheus.CounterVec
	freezes *prometheus.CounterVec
	probes  *prometheus.CounterVec
	refused *prometheus.CounterVec
	limited prometheus.Counter

	// blocked are the reasons of Blockers that were shown; shown is the state that was shown last, and at when.
	blocked map[string]bool
	shown   State
	at      time.Time
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		frozen: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hollowfleet_agent_frozen",
			Help: "1 while this keeps the agent frozen, else 0: an API server (scope hub, target, host), the agent itself (agent) or a person (cluster), with the reason.",
		}, []string{"scope", "reason"}),
		since: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hollowfleet_agent_frozen_since_timestamp_seconds",
			Help: "Unix time since which the agent is frozen for its current reason, 0 while it is not frozen.",
		}),
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_agent_frozen_seconds_total",
			Help: "Time that the agent was frozen, by reason.",
		}, []string{"reason"}),
		freezes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_agent_freezes_total",
			Help: "Freezes that started, by their first reason.",
		}, []string{"reason"}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_agent_probes_total",
			Help: "Probes of an API server (scope) by outcome.",
		}, []string{"scope", "outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_agent_frozen_refusals_total",
			Help: "Changes that were refused because the agent was frozen, by method.",
		}, []string{"method"}),
		limited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hollowfleet_agent_thaw_limited_machines_total",
			Help: "Machines that had to wait before they were drained or removed, because of the limit after a freeze.",
		}),
		blocked: map[string]bool{},
	}
	for _, reason := range blockerReasons {
		m.blocked[reason] = true
	}
	registerer.MustRegister(m.frozen, m.since, m.seconds, m.freezes, m.probes, m.refused, m.limited)
	for _, reason := range slices.Concat(blockerReasons, otherReasons) {
		m.seconds.WithLabelValues(reason)
		m.freezes.WithLabelValues(reason)
	}
	for _, method := range gatedMethods {
		m.refused.WithLabelValues(method)
	}
	return m
}

// presetProbes shows the outcomes of the probes of an API server before there was any.
func (m *Metrics) presetProbes(scope Scope) {
	for _, outcome := range Outcomes {
		m.probes.WithLabelValues(string(scope), string(outcome))
	}
}

func (m *Metrics) countProbe(scope Scope, outcome Outcome) {
	m.probes.WithLabelValues(string(scope), string(outcome)).Inc()
}

// showState is called by one goroutine.
func (m *Metrics) showState(state State, now time.Time) {
	for _, endpoint := range state.Endpoints {
		for _, reason := range []string{v1alpha1.ReasonStarting, v1alpha1.ReasonUnreachable} {
			m.setFrozen(string(endpoint.Scope), reason, endpoint.Frozen && endpoint.Reason == reason)
		}
	}
	m.setFrozen(clusterScope, v1alpha1.ReasonManualFreeze, state.Ordered)
	holds := map[string]bool{}
	for _, blocker := range state.Blockers {
		holds[blocker.Reason], m.blocked[blocker.Reason] = true, true
	}
	for reason := range m.blocked {
		m.setFrozen(agentScope, reason, holds[reason])
	}
	m.countTime(state, now)
	if state.Frozen {
		m.since.Set(float64(state.Since.Unix()))
	} else {
		m.since.Set(0)
	}
}

// countTime adds up the time that has passed since the last call.
func (m *Metrics) countTime(state State, now time.Time) {
	if m.shown.Frozen {
		m.seconds.WithLabelValues(m.shown.Reason).Add(max(Passed(m.at, now), 0).Seconds())
	}
	if state.Frozen && !m.shown.Frozen {
		m.freezes.WithLabelValues(state.Reason).Inc()
		if late := Passed(state.Since, now); !m.at.IsZero() && late > 0 {
			// The freeze started when the last good answer became too old, and is noticed only now.
			m.seconds.WithLabelValues(state.Reason).Add(min(late, Passed(m.at, now)).Seconds())
		}
	}
	m.shown, m.at = state, now
}

func (m *Metrics) setFrozen(scope, reason string, holds bool) {
	value := 0.0
	if holds {
		value = 1
	}
	m.frozen.WithLabelValues(scope, reason).Set(value)
}

// ServeHTTP tells the freeze state: text for people, JSON with "Accept: application/json" or "?format=json".
// It answers 200 whether frozen or not: being frozen is no fault of the agent.
func (m *Monitor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	state := m.State()
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(state); err != nil {
			m.options.Log.V(1).Info("Writing the freeze state failed", "error", err)
		}
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprint(w, state.describeReasons())
}

func (s State) describeReasons() string {
	var b strings.Builder
	if s.Frozen {
		fmt.Fprintf(&b, "frozen since %s: %s: %s\n", s.Since.UTC().Format(time.RFC3339), s.Reason, s.Message)
	} else {
		b.WriteString("not frozen\n")
	}
	if s.Ordered {
		fmt.Fprintf(&b, "%-7s %s: frozen by a user\n", clusterScope, v1alpha1.ReasonManualFreeze)
	}
	for _, blocker := range s.Blockers {
		fmt.Fprintf(&b, "%-7s %s since %s: %s\n", agentScope, blocker.Reason, blocker.Since.UTC().Format(time.RFC3339), blocker.Message)
	}
	for _, e := range s.Endpoints {
		fmt.Fprintf(&b, "%-7s %-12s last probe %s at %s", e.Scope, e.Reason, e.LastOutcome, e.LastProbe.UTC().Format(time.RFC3339))
		if e.Frozen {
			fmt.Fprintf(&b, ", %d good answers in a row", e.Successes)
		}
		if e.LastMessage != "" {
			fmt.Fprintf(&b, ": %s", e.LastMessage)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
