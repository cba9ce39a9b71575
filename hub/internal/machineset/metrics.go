package machineset

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	machinesCreated = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_hub_machines_created_total",
		Help: "Machines that the hub has created, by cluster.",
	}, []string{"cluster"})
	machinesDeleted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_hub_machines_deleted_total",
		Help: "Machines that the hub has ordered to be deleted, by cluster.",
	}, []string{"cluster"})
	machinesReplaced = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_hub_machines_replaced_total",
		Help: "Failed machines that the hub has ordered to be deleted so that others are made, by cluster.",
	}, []string{"cluster"})
	createFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "hollowfleet_hub_machine_create_failures_total",
		Help: "Batches of Machines that could not all be created, by cluster.",
	}, []string{"cluster"})
)

func init() {
	metrics.Registry.MustRegister(machinesCreated, machinesDeleted, machinesReplaced, createFailures)
}
