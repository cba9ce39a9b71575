package fleettest

import (
	"testing"

	. "github.com/onsi/gomega"
)

const someMetrics = `
# TYPE asked counter
asked{verb="GET"} 3
asked{verb="PUT"} 4
# TYPE took histogram
took_bucket{of="a",le="1"} 2
took_bucket{of="a",le="9.999999999999999"} 3
took_bucket{of="a",le="+Inf"} 5
took_sum{of="a"} 60
took_count{of="a"} 5
took_bucket{of="b",le="1"} 0
took_bucket{of="b",le="10"} 6
took_bucket{of="b",le="+Inf"} 7
took_sum{of="b"} 50
took_count{of="b"} 7
`

func TestMetricsAreCounted(t *testing.T) {
	g := NewWithT(t)
	metrics := []byte(someMetrics)
	g.Expect(Sum(g, metrics, "asked", func(labels map[string]string) bool { return labels["verb"] == "PUT" })).To(Equal(4.0))
	g.Expect(Above(g, metrics, "took", 10)).To(Equal(3.0))
	g.Expect(Above(g, metrics, "took", 1)).To(Equal(10.0))
}
