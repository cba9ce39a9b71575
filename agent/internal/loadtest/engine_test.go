package loadtest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestBreach(t *testing.T) {
	g := NewWithT(t)
	longest, most := &metav1.Duration{Duration: time.Second}, int32(1)
	result := func(met bool, count int64) v1alpha1.LoadThresholdResult {
		return v1alpha1.LoadThresholdResult{Met: met, Count: count, Measured: &metav1.Duration{Duration: 2 * time.Second},
			LoadThreshold: v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP99, Max: longest}}
	}
	g.Expect(firstBreach([]v1alpha1.LoadThresholdResult{result(true, 1000), result(false, 99), {}})).To(BeEmpty())
	g.Expect(firstBreach([]v1alpha1.LoadThresholdResult{result(true, 1000), result(false, 100)})).To(ContainSubstring("thresholds[1] is crossed"))
	errors := v1alpha1.LoadThresholdResult{Count: 200, MeasuredPercent: "3.00", LoadThreshold: v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, MaxPercent: &most}}
	g.Expect(firstBreach([]v1alpha1.LoadThresholdResult{errors})).To(ContainSubstring("3.00 of 100 requests failed"))
}
