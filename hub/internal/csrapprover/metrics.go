package csrapprover

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "hollowfleet_hub_csr_total",
	Help: "Looks at certificate requests of agents, by decision (Approved, Denied, Waiting, Left) and reason. A request that waits is counted at every look.",
}, []string{"decision", "reason"})

func init() { metrics.Registry.MustRegister(decisions) }

func count(decision Decision) {
	decisions.WithLabelValues(string(decision.Verdict), decision.Reason).Inc()
}
