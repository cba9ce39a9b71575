package cluster

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/scrape"
)

var (
	machinesDesc = prometheus.NewDesc("hollowfleet_hub_cluster_machines",
		"Machines of a cluster, by state: total, ready, failed.", []string{"cluster", "state"}, nil)
	connectedDesc = prometheus.NewDesc("hollowfleet_hub_cluster_agent_connected",
		"1 while the cluster's agent renews its Lease, else 0.", []string{"cluster"}, nil)
	skewDesc = prometheus.NewDesc("hollowfleet_hub_cluster_clock_skew_seconds",
		"How far the clock of the cluster's agent is ahead of the hub's; 0 below two seconds.", []string{"cluster"}, nil)
	frozenDesc = prometheus.NewDesc("hollowfleet_hub_cluster_frozen",
		"1 while nothing may be created or deleted for the cluster, else 0.", []string{"cluster"}, nil)
)

// collector is a prometheus.Collector of the clusters in the caches of leading hubs.
type collector struct {
	readers scrape.Sources[client.Reader]
}

var collected = &collector{}

func init() { metrics.Registry.MustRegister(collected) }

// ServeMetrics shows the clusters that reader, which reads from the cache of a leading hub, has, until the returned function is
// called.
func ServeMetrics(reader client.Reader) (end func()) { return collected.readers.Add(reader) }

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{machinesDesc, connectedDesc, skewDesc, frozenDesc} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(found chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrape.Patience)
	defer cancel()
	seen := map[string]bool{}
	for _, reader := range c.readers.All() {
		clusters := &v1alpha1.ClusterList{}
		if err := reader.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
			continue // A hub that has just started has no figures yet.
		}
		for i := range clusters.Items {
			if cluster := &clusters.Items[i]; !seen[cluster.Name] {
				seen[cluster.Name] = true
				collectCluster(cluster, found)
			}
		}
	}
}

func collectCluster(cluster *v1alpha1.Cluster, found chan<- prometheus.Metric) {
	show := func(description *prometheus.Desc, value float64, labels ...string) {
		found <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, append([]string{cluster.Name}, labels...)...)
	}
	holds := func(condition string) float64 {
		if meta.IsStatusConditionTrue(cluster.Status.Conditions, condition) {
			return 1
		}
		return 0
	}
	if counts := cluster.Status.Machines; counts != nil {
		show(machinesDesc, float64(counts.Total), "total")
		show(machinesDesc, float64(counts.Ready), "ready")
		show(machinesDesc, float64(counts.Failed), "failed")
	}
	show(connectedDesc, holds(v1alpha1.ClusterAgentConnectedCondition))
	show(frozenDesc, holds(v1alpha1.FrozenCondition))
	skew := 0.0
	if cluster.Status.ClockSkew != nil {
		skew = cluster.Status.ClockSkew.Seconds()
	}
	show(skewDesc, skew)
}
