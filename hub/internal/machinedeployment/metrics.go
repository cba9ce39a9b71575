package machinedeployment

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var setsScaled = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "hollowfleet_hub_machine_sets_scaled_total",
	Help: "Changes of a MachineSet's replicas by the hub, by cluster.",
}, []string{"cluster"})

func init() {
	metrics.Registry.MustRegister(setsScaled)
}
