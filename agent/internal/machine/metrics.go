package machine

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the machine controller.
type Metrics struct {
	repairs *prometheus.CounterVec
	strays  *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_instance_repairs_total",
			Help: "Instances that were made anew because the one before was lost or had ended (cause).",
		}, []string{"cause"}),
		strays: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hollowfleet_stray_instances",
			Help: "Instances of a provider for which the hub has no Machine. They are never deleted.",
		}, []string{"provider"}),
	}
	registerer.MustRegister(m.repairs, m.strays)
	return m
}

func (m *Metrics) repaired(cause string) { m.repairs.WithLabelValues(cause).Inc() }
