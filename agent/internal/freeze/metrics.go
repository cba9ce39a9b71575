package freeze

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Metrics of a Monitor and a Gate.
type Metrics struct {
	frozen  *prometheus.GaugeVec
	since   prometheus.Gauge
	probes  *prometheus.CounterVec
	refused *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		frozen: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hollowfleet_frozen",
			Help: "1 while the agent is frozen because of this API server (scope) for this reason, else 0.",
		}, []string{"scope", "reason"}),
		since: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hollowfleet_frozen_since_seconds",
			Help: "Unix time at which the present freeze began, 0 while the agent is not frozen.",
		}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_probes_total",
			Help: "Probes of an API server (scope) by outcome.",
		}, []string{"scope", "outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_frozen_refusals_total",
			Help: "Changes that were refused because the agent was frozen, by method.",
		}, []string{"method"}),
	}
	registerer.MustRegister(m.frozen, m.since, m.probes, m.refused)
	return m
}

func (m *Metrics) probed(scope Scope, outcome Outcome) {
	m.probes.WithLabelValues(string(scope), string(outcome)).Inc()
}

func (m *Metrics) show(state State) {
	for _, endpoint := range state.Endpoints {
		for _, reason := range []string{v1alpha1.ReasonStarting, v1alpha1.ReasonUnreachable} {
			value := 0.0
			if endpoint.Frozen && endpoint.Reason == reason {
				value = 1
			}
			m.frozen.WithLabelValues(string(endpoint.Scope), reason).Set(value)
		}
	}
	ordered := 0.0
	if state.Ordered {
		ordered = 1
	}
	m.frozen.WithLabelValues("cluster", v1alpha1.ReasonManualFreeze).Set(ordered)
	for _, reason := range []string{v1alpha1.ReasonAnotherAgent, v1alpha1.ReasonLeaseNotHeld} {
		value := 0.0
		if state.Frozen && state.Reason == reason {
			value = 1
		}
		m.frozen.WithLabelValues("agent", reason).Set(value)
	}
	if state.Frozen {
		m.since.Set(float64(state.Since.Unix()))
	} else {
		m.since.Set(0)
	}
}
