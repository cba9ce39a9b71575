package csrapprover

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the approver.
type Metrics struct {
	decisions *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_certificate_requests_total",
		Help: "Certificate requests of kubelets by verdict. Join and Renewal were approved, all others left alone.",
	}, []string{"verdict"})}
	registerer.MustRegister(m.decisions)
	for _, verdict := range Verdicts {
		m.decisions.WithLabelValues(string(verdict))
	}
	return m
}

func (m *Metrics) decided(verdict Decision) { m.decisions.WithLabelValues(string(verdict)).Inc() }
