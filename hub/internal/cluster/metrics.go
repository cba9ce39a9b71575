package cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var (
	machineCount = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "hollowfleet_hub_cluster_machines",
		Help: "Machines of a cluster, by state: total, ready, failed.",
	}, []string{"cluster", "state"})
	agentConnected = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "hollowfleet_hub_cluster_agent_connected",
		Help: "1 while the cluster's agent renews its Lease, else 0.",
	}, []string{"cluster"})
	clockSkew = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "hollowfleet_hub_cluster_clock_skew_seconds",
		Help: "How far the clock of the cluster's agent is ahead of the hub's; 0 below two seconds.",
	}, []string{"cluster"})
	clusterFrozen = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "hollowfleet_hub_cluster_frozen",
		Help: "1 while nothing may be created or deleted for the cluster, else 0.",
	}, []string{"cluster"})
)

func init() {
	metrics.Registry.MustRegister(machineCount, agentConnected, clockSkew, clusterFrozen)
}

func publish(cluster *v1alpha1.Cluster) {
	if counts := cluster.Status.Machines; counts != nil {
		machineCount.WithLabelValues(cluster.Name, "total").Set(float64(counts.Total))
		machineCount.WithLabelValues(cluster.Name, "ready").Set(float64(counts.Ready))
		machineCount.WithLabelValues(cluster.Name, "failed").Set(float64(counts.Failed))
	}
	set := func(gauge *prometheus.GaugeVec, condition string) {
		value := 0.0
		if meta.IsStatusConditionTrue(cluster.Status.Conditions, condition) {
			value = 1
		}
		gauge.WithLabelValues(cluster.Name).Set(value)
	}
	skewed := 0.0
	if cluster.Status.ClockSkew != nil {
		skewed = cluster.Status.ClockSkew.Seconds()
	}
	clockSkew.WithLabelValues(cluster.Name).Set(skewed)
	set(agentConnected, v1alpha1.ClusterAgentConnectedCondition)
	set(clusterFrozen, v1alpha1.FrozenCondition)
}

func unpublish(cluster string) {
	for _, gauge := range []*prometheus.GaugeVec{machineCount, agentConnected, clockSkew, clusterFrozen} {
		gauge.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
	}
}
