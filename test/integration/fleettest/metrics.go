package fleettest

import (
	"bytes"
	"context"

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

// Sum adds the counters or gauges of that name up whose labels count.
func Sum(g Gomega, metrics []byte, name string, counts func(labels map[string]string) bool) float64 {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(metrics))
	g.Expect(err).NotTo(HaveOccurred())
	total := 0.0
	for _, metric := range families[name].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if counts(labels) {
			total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return total
}
