package loadtest_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// Claim: Exactly the threshold passes. Broken: the end of its bucket counts.
func TestThresholds(t *testing.T) {
	measured := loadtest.Measurements{}
	for i := range 100 {
		measured.Record(ready, time.Duration(i+1)*100*time.Millisecond, 1)
	}
	measured.Record(posts, time.Second, 1)
	most := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	percent := func(number int32) *int32 { return &number }
	for name, c := range map[string]struct {
		threshold        v1alpha1.LoadThreshold
		requests, failed int64
		met              bool
		count            int64
		measured         time.Duration
		percent          string
	}{
		"met":                     {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP99, Max: most(10 * time.Second)}, 0, 0, true, 100, 9900 * time.Millisecond, ""},
		"P99 is the default":      {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Max: most(9 * time.Second)}, 0, 0, false, 100, 9900 * time.Millisecond, ""},
		"the median":              {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP50, Max: most(6 * time.Second)}, 0, 0, true, 100, 5 * time.Second, ""},
		"P90":                     {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP90, Max: most(8 * time.Second)}, 0, 0, false, 100, 9 * time.Second, ""},
		"the longest":             {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadMax, Max: most(9950 * time.Millisecond)}, 0, 0, false, 100, 10 * time.Second, ""},
		"exactly the longest":     {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadMax, Max: most(10 * time.Second)}, 0, 0, true, 100, 10 * time.Second, ""},
		"exactly a second":        {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadAPIRequest, Max: most(time.Second)}, 0, 0, true, 1, time.Second, ""},
		"shorter than any time":   {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadAPIRequest, Max: most(time.Nanosecond)}, 0, 0, false, 1, time.Second, ""},
		"longer than any time":    {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadAPIRequest, Max: most(9999 * time.Hour)}, 0, 0, true, 1, time.Second, ""},
		"all requests":            {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadAPIRequest, Max: most(2 * time.Second)}, 0, 0, true, 1, time.Second, ""},
		"without any measurement": {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadNodeReady, Max: most(time.Hour)}, 0, 0, false, 0, 0, ""},
		"no errors":               {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, MaxPercent: percent(0)}, 100, 0, true, 100, 0, "0.00"},
		"errors":                  {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, MaxPercent: percent(1)}, 1000, 11, false, 1000, 0, "1.10"},
		"as many as may be":       {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, MaxPercent: percent(1)}, 1000, 10, true, 1000, 0, "1.00"},
		"no request":              {v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, MaxPercent: percent(1)}, 0, 0, false, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			results := loadtest.Evaluate([]v1alpha1.LoadThreshold{c.threshold}, measured, c.requests, c.failed)
			g.Expect(results).To(HaveLen(1))
			got := results[0]
			g.Expect(got.LoadThreshold).To(Equal(c.threshold))
			g.Expect(got.Met).To(Equal(c.met))
			g.Expect(got.Count).To(Equal(c.count))
			g.Expect(got.MeasuredPercent).To(Equal(c.percent))
			if c.measured == 0 {
				g.Expect(got.Measured).To(BeNil())
			} else {
				g.Expect(got.Measured.Duration).To(BeNumerically("~", c.measured, c.measured/1000+time.Microsecond))
			}
		})
	}
}
