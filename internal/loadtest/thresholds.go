package loadtest

import (
	"strconv"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Evaluate says which thresholds are met by what was measured, and by how many of the requests failed. One without any measurement
// is not met.
func Evaluate(thresholds []v1alpha1.LoadThreshold, measured Measurements, requests, failed int64) []v1alpha1.LoadThresholdResult {
	var results []v1alpha1.LoadThresholdResult
	for _, threshold := range thresholds {
		result := v1alpha1.LoadThresholdResult{LoadThreshold: threshold}
		if threshold.Measurement == v1alpha1.LoadErrors {
			result.Count = requests
			if requests > 0 {
				percent := float64(failed) / float64(requests) * 100
				result.MeasuredPercent = strconv.FormatFloat(percent, 'f', 2, 64)
				result.Met = threshold.MaxPercent != nil && percent <= float64(*threshold.MaxPercent)
			}
		} else if histogram := measured.Match(Key{threshold.Measurement, threshold.Verb, threshold.Resource}); histogram != nil {
			value := quantile(histogram, percentOf(threshold.Quantile))
			result.Count, result.Measured = histogram.TotalCount(), &value
			result.Met = threshold.Max != nil && value.Duration <= threshold.Max.Duration
		}
		results = append(results, result)
	}
	return results
}

// percentOf a quantile. P99 is the default.
func percentOf(quantile v1alpha1.LoadQuantile) float64 {
	switch quantile {
	case v1alpha1.LoadP50:
		return 50
	case v1alpha1.LoadP90:
		return 90
	case v1alpha1.LoadMax:
		return 100
	case v1alpha1.LoadP99:
	}
	return 99
}
