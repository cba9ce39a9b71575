package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestALineHasGapsWhereNothingWasMeasured(t *testing.T) {
	g := NewWithT(t)
	c := &chart{Seconds: 100, longest: time.Second}
	points := func(seconds ...int32) []v1alpha1.LoadPoint {
		var list []v1alpha1.LoadPoint
		for _, at := range seconds {
			list = append(list, v1alpha1.LoadPoint{Seconds: at, Count: 1, P50: metav1.Duration{Duration: time.Millisecond}, P99: metav1.Duration{Duration: time.Second}})
		}
		return list
	}
	for name, test := range map[string]struct {
		points []v1alpha1.LoadPoint
		parts  int
	}{
		"one point":              {points(5), 1},
		"one point is missing":   {points(0, 5, 15, 20), 1},
		"two points are missing": {points(0, 5, 20, 25), 2},
		"a point on its own":     {points(0, 5, 40, 80, 85), 3},
		"rare, but even":         {points(0, 40, 80), 1},
	} {
		drawn := c.newLine(1, "c", test.points, 0)
		g.Expect(drawn.P50).To(HaveLen(test.parts), name)
		g.Expect(drawn.P99).To(HaveLen(test.parts), name)
		g.Expect(drawn.Dots).To(HaveLen(len(test.points)), name)
	}
}
