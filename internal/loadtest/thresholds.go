package loadtest

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

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
			result.Met = threshold.Max != nil && isWithin(histogram, value.Duration, threshold.Max.Duration)
		}
		results = append(results, result)
	}
	return results
}

// isWithin tells whether a quantile of a histogram is at most a limit. It is the end of its bucket, so that the quantile of
// measurements of exactly the limit is longer than that: what the histogram does not tell from the limit is within it.
func isWithin(histogram *hdrhistogram.Histogram, quantile, limit time.Duration) bool {
	return quantile <= limit || histogram.ValuesAreEquivalent(quantile.Microseconds(), limit.Microseconds())
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

// Describe says in words what became of a threshold, such as "PodReady P99 6.1s, not 5s".
func Describe(result *v1alpha1.LoadThresholdResult) string {
	name := Key{result.Measurement, result.Verb, result.Resource}.String()
	limit, measured := "", "not measured"
	if result.Measurement == v1alpha1.LoadErrors {
		if result.MaxPercent != nil {
			limit = fmt.Sprintf("%d%%", *result.MaxPercent)
		}
		if result.MeasuredPercent != "" {
			measured = result.MeasuredPercent + "%"
		}
	} else {
		name += " " + string(cmp.Or(result.Quantile, v1alpha1.LoadP99))
		if result.Max != nil {
			limit = result.Max.Duration.String()
		}
		if result.Measured != nil {
			measured = Round(result.Measured.Duration).String()
		}
	}
	if result.Met {
		return fmt.Sprintf("%s %s, at most %s", name, measured, limit)
	}
	return fmt.Sprintf("%s %s, not %s", name, measured, limit)
}

// Round leaves a time its three most significant digits.
func Round(d time.Duration) time.Duration {
	for unit := time.Nanosecond; unit <= time.Hour; unit *= 10 {
		if d.Abs() < 1000*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Second)
}
