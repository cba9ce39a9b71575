package freeze

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// patience bounds one count. What cannot be read in it is left out.
const patience = 5 * time.Second

// The scopes of a freeze.
const (
	scopeCluster    = "cluster"
	scopeDeployment = "machinedeployment"
	scopeSet        = "machineset"
)

var (
	frozenDesc = prometheus.NewDesc("hollowfleet_frozen",
		"Objects that are frozen, by kind (scope) and reason.", []string{"scope", "reason"}, nil)
	longestDesc = prometheus.NewDesc("hollowfleet_frozen_longest_seconds",
		"How long the one of them has been frozen that has been so for longest, by kind (scope) and reason.", []string{"scope", "reason"}, nil)
)

// figures are what is said of one scope and reason.
type figures struct {
	count   int
	longest time.Duration
}

type key struct{ scope, reason string }

// Collector is a prometheus.Collector of all hubs in the process, of which there may be several in tests.
type Collector struct {
	clock   clock.PassiveClock
	mu      sync.Mutex
	readers []client.Reader
}

var collector = &Collector{clock: clock.RealClock{}}

func init() { metrics.Registry.MustRegister(collector) }

// ServeMetrics counts with reader, which reads from a cache, until the returned function is called.
func ServeMetrics(reader client.Reader) (end func()) { return collector.serve(reader) }

func (c *Collector) serve(reader client.Reader) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers = append(c.readers, reader)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.readers = slices.DeleteFunc(c.readers, func(other client.Reader) bool { return other == reader })
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- frozenDesc
	descriptions <- longestDesc
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(found chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.mu.Lock()
	readers, now := slices.Clone(c.readers), c.clock.Now()
	c.mu.Unlock()
	all := map[key]figures{}
	for _, reader := range readers {
		count(ctx, reader, now, all)
	}
	for k, f := range all {
		found <- prometheus.MustNewConstMetric(frozenDesc, prometheus.GaugeValue, float64(f.count), k.scope, k.reason)
		found <- prometheus.MustNewConstMetric(longestDesc, prometheus.GaugeValue, f.longest.Seconds(), k.scope, k.reason)
	}
}

// count adds what reader shows. A kind that cannot be read, because the hub is not elected or has just started, has no
// figures: a count of none would be a lie.
func count(ctx context.Context, reader client.Reader, now time.Time, all map[key]figures) {
	list := func(into client.ObjectList) bool {
		return reader.List(ctx, into, client.UnsafeDisableDeepCopy) == nil
	}
	add := func(scope string, conditions []metav1.Condition) {
		frozen := meta.FindStatusCondition(conditions, v1alpha1.FrozenCondition)
		if frozen == nil || frozen.Status == metav1.ConditionFalse {
			return
		}
		sum := all[key{scope, frozen.Reason}]
		sum.count++
		sum.longest = max(sum.longest, now.Sub(frozen.LastTransitionTime.Time))
		all[key{scope, frozen.Reason}] = sum
	}
	if clusters := (&v1alpha1.ClusterList{}); list(clusters) {
		for i := range clusters.Items {
			add(scopeCluster, clusters.Items[i].Status.Conditions)
		}
	}
	if deployments := (&v1alpha1.MachineDeploymentList{}); list(deployments) {
		for i := range deployments.Items {
			add(scopeDeployment, deployments.Items[i].Status.Conditions)
		}
	}
	if sets := (&v1alpha1.MachineSetList{}); list(sets) {
		for i := range sets.Items {
			add(scopeSet, sets.Items[i].Status.Conditions)
		}
	}
}
