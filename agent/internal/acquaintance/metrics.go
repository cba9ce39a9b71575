package acquaintance

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hollowfleet/hollowfleet/agent/internal/acquaintance/policy"
)

// Metrics of a Keeper.
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

func (m *Metrics) note(outcome policy.Outcome) {
	m.outcomes.WithLabelValues(string(outcome)).Inc()
}
