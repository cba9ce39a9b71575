package freeze

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/scrape"
)

var (
	frozenDesc = prometheus.NewDesc("hollowfleet_hub_frozen_objects",
		"Objects that are frozen, by kind and reason.", []string{"kind", "reason"}, nil)
	longestDesc = prometheus.NewDesc("hollowfleet_hub_frozen_longest_seconds",
		"Longest time that an object has been frozen, by kind and reason.", []string{"kind", "reason"}, nil)
)

// figures are what is said of one scope and reason.
type figures struct {
	count   int
	longest time.Duration
}

type key struct{ kind, reason string }

// Collector is a prometheus.Collector of what is frozen.
type Collector struct {
	clock   clock.PassiveClock
	readers scrape.Sources[client.Reader]
}

var collector = &Collector{clock: clock.RealClock{}}

func init() { metrics.Registry.MustRegister(collector) }

// ServeMetrics counts with reader, which reads from the cache of a leading hub, until the returned function is called.
func ServeMetrics(reader client.Reader) (end func()) { return collector.readers.Add(reader) }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- frozenDesc
	descriptions <- longestDesc
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(found chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrape.Patience)
	defer cancel()
	all := map[key]figures{}
	for _, reader := range c.readers.All() {
		countFrozen(ctx, reader, c.clock.Now(), all)
	}
	for k, f := range all {
		found <- prometheus.MustNewConstMetric(frozenDesc, prometheus.GaugeValue, float64(f.count), k.kind, k.reason)
		found <- prometheus.MustNewConstMetric(longestDesc, prometheus.GaugeValue, f.longest.Seconds(), k.kind, k.reason)
	}
}

// countFrozen adds what reader shows. A kind that cannot be read, because the hub has just started, has no figures: a count of
// none would be a lie.
func countFrozen(ctx context.Context, reader client.Reader, now time.Time, all map[key]figures) {
	list := func(into client.ObjectList) bool {
		return reader.List(ctx, into, client.UnsafeDisableDeepCopy) == nil
	}
	add := func(kind string, conditions []metav1.Condition) {
		frozen := meta.FindStatusCondition(conditions, v1alpha1.FrozenCondition)
		if frozen == nil || frozen.Status == metav1.ConditionFalse {
			return
		}
		sum := all[key{kind, frozen.Reason}]
		sum.count++
		sum.longest = max(sum.longest, now.Sub(frozen.LastTransitionTime.Time))
		all[key{kind, frozen.Reason}] = sum
	}
	if clusters := (&v1alpha1.ClusterList{}); list(clusters) {
		for i := range clusters.Items {
			add("Cluster", clusters.Items[i].Status.Conditions)
		}
	}
	if fleets := (&v1alpha1.MachineFleetList{}); list(fleets) {
		for i := range fleets.Items {
			add("MachineFleet", fleets.Items[i].Status.Conditions)
		}
	}
	if deployments := (&v1alpha1.MachineDeploymentList{}); list(deployments) {
		for i := range deployments.Items {
			add("MachineDeployment", deployments.Items[i].Status.Conditions)
		}
	}
	if sets := (&v1alpha1.MachineSetList{}); list(sets) {
		for i := range sets.Items {
			add("MachineSet", sets.Items[i].Status.Conditions)
		}
	}
}
