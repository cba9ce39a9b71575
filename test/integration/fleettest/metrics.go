package fleettest

import (
	"bytes"
	"context"
	"math"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ServerMetrics are those of an API server.
func ServerMetrics(ctx context.Context, g Gomega, config *rest.Config) []byte {
	clientset, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	content, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	return content
}

// sample is one line of a metric, or one histogram.
type sample struct {
	labels map[string]string
	value  float64
	// observed is how often the histogram was used, upTo how often with no more than a bound.
	observed uint64
	upTo     map[float64]uint64
}

func samplesOf(g Gomega, metrics []byte, name string) []sample {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	g.Expect(err).NotTo(HaveOccurred())
	var all []sample
	for _, metric := range families[name].GetMetric() {
		one := sample{
			labels: map[string]string{}, value: metric.GetCounter().GetValue() + metric.GetGauge().GetValue(),
			observed: metric.GetHistogram().GetSampleCount(), upTo: map[float64]uint64{},
		}
		for _, pair := range metric.GetLabel() {
			one.labels[pair.GetName()] = pair.GetValue()
		}
		for _, bucket := range metric.GetHistogram().GetBucket() {
			one.upTo[bucket.GetUpperBound()] = bucket.GetCumulativeCount()
		}
		all = append(all, one)
	}
	return all
}

// Sum adds the counters or gauges of that name up whose labels count.
func Sum(g Gomega, metrics []byte, name string, counts func(labels map[string]string) bool) float64 {
	total := 0.0
	for _, one := range samplesOf(g, metrics, name) {
		if counts(one.labels) {
			total += one.value
		}
	}
	return total
}

// Above counts what the histograms of that name, of which there must be some, have seen above one of their bounds. A
// bound may be off by as much as its own rounding.
func Above(g Gomega, metrics []byte, name string, bound float64) float64 {
	histograms := samplesOf(g, metrics, name)
	g.Expect(histograms).NotTo(BeEmpty(), name)
	total := uint64(0)
	for _, one := range histograms {
		known := false
		for upper, count := range one.upTo {
			if math.Abs(upper-bound) < bound/1e6 {
				known, total = true, total+one.observed-count
			}
		}
		g.Expect(known).To(BeTrue(), "%s has no bound %g", name, bound)
	}
	return float64(total)
}
