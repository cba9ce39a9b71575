package machine

import (
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// Why an instance is recreated.
const (
	causeLost  = "lost"
	causeEnded = "ended"
)

// Metrics of the machine controller.
type Metrics struct {
	repairs           *prometheus.CounterVec
	orphanedInstances *prometheus.GaugeVec
	// orphanedNodes and orphanedRequests are what orphanedInstances is, of Nodes and of certificate requests.
	orphanedNodes, orphanedRequests prometheus.Gauge
	droppedEvents                   *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_agent_instance_repairs_total",
			Help: "Instances that were recreated because the one before was lost or had ended (cause).",
		}, []string{"cause"}),
		orphanedInstances: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hollowfleet_agent_orphaned_instances",
			Help: "Instances of a provider for which the hub has no Machine. They are never deleted.",
		}, []string{"provider"}),
		orphanedNodes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hollowfleet_agent_orphaned_nodes",
			Help: "Nodes of Machines that the hub does not have. They are never deleted.",
		}),
		orphanedRequests: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hollowfleet_agent_orphaned_certificate_requests",
			Help: "Nodes with a certificate request and without a Machine on the hub. The requests are never deleted.",
		}),
		droppedEvents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hollowfleet_agent_machine_events_dropped_total",
			Help: "Events on Machines that were not sent because there were too many (type).",
		}, []string{"type"}),
	}
	registerer.MustRegister(m.repairs, m.orphanedInstances, m.orphanedNodes, m.orphanedRequests, m.droppedEvents)
	for _, cause := range []string{causeLost, causeEnded} {
		m.repairs.WithLabelValues(cause)
	}
	for _, kind := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning} {
		m.droppedEvents.WithLabelValues(kind)
	}
	return m
}
