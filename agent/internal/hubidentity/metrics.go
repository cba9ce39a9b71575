package hubidentity

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a Verifier.
type Metrics struct {
	outcomes *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_hub_looks_total",
		Help: "Looks at the hub's identity that changed something, by outcome: Met, NothingToLose, Found, Back, Acknowledged.",
	}, []string{"outcome"})}
	registerer.MustRegister(m.outcomes)
	return m
}

func (m *Metrics) record(outcome Outcome) {
	m.outcomes.WithLabelValues(string(outcome)).Inc()
}
