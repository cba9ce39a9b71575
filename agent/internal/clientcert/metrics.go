package clientcert

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of an attempt to get a credential.
const (
	resultIssued = "Issued"
	resultDenied = "Denied"
	resultFailed = "Failed"
	resultError  = "Error"
)

// Metrics of a Manager.
type Metrics struct {
	expiry   prometheus.Gauge
	renewals *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		expiry: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hollowfleet_agent_credential_expiry_timestamp_seconds",
			Help: "Unix time at which the agent's credential for the hub expires, 0 while it has none.",
		}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_agent_credential_renewals_total",
			Help: "Credentials for the hub that were asked for, the first one too, by result: Issued; Denied by the hub; Failed at the signer; Error of a request, which is tried again.",
		}, []string{"result"}),
	}
	registerer.MustRegister(m.expiry, m.renewals)
	for _, result := range []string{resultIssued, resultDenied, resultFailed, resultError} {
		m.renewals.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) holds(expiry time.Time) { m.expiry.Set(float64(expiry.Unix())) }

func (m *Metrics) ended(result string) { m.renewals.WithLabelValues(result).Inc() }
