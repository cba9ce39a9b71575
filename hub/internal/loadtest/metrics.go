package loadtest

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/scrape"
)

var failedDesc = prometheus.NewDesc("hollowfleet_hub_load_test_failed",
	"1 if a LoadTest is over and its verdict is not Passed, 0 if it is; absent until it is over.", []string{"load_test"}, nil)

// collector is a prometheus.Collector of the LoadTests in the caches of leading hubs.
type collector struct {
	readers scrape.Sources[client.Reader]
}

var collected = &collector{}

func init() { metrics.Registry.MustRegister(collected) }

// ServeMetrics shows the LoadTests that reader, which reads from the cache of a leading hub, has, until the returned function is called.
func ServeMetrics(reader client.Reader) (end func()) { return collected.readers.Add(reader) }

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- failedDesc }

// Collect implements prometheus.Collector.
func (c *collector) Collect(found chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrape.Patience)
	defer cancel()
	seen := map[string]bool{}
	for _, reader := range c.readers.All() {
		tests := &v1alpha1.LoadTestList{}
		if err := reader.List(ctx, tests, client.UnsafeDisableDeepCopy); err != nil {
			continue // A hub that has just started has no figures yet.
		}
		for i := range tests.Items {
			test := &tests.Items[i]
			if failed, over := failedValue(test); over && !seen[test.Name] {
				seen[test.Name] = true
				found <- prometheus.MustNewConstMetric(failedDesc, prometheus.GaugeValue, failed, test.Name)
			}
		}
	}
}

// failedValue is 1 for a test without proof that it has passed. over is false until it is over.
func failedValue(test *v1alpha1.LoadTest) (failed float64, over bool) {
	switch phase := test.Status.Phase; {
	case phase != v1alpha1.LoadTestPhaseCompleted && phase != v1alpha1.LoadTestPhaseFailed:
		return 0, false
	case phase == v1alpha1.LoadTestPhaseCompleted && test.Status.Verdict == v1alpha1.LoadPassed:
		return 0, true
	}
	return 1, true
}
