package loadtest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Evaluate says which thresholds are met by what was measured, and by how many of the requests failed. One without any measurement
// is not met. What had not ended, such as a pod that was never Ready, is shown with the time that it had waited and meets no limit:
// nobody knows how long it would have taken.
func Evaluate(thresholds []v1alpha1.LoadThreshold, measured Measurements, requests, failed int64) []v1alpha1.LoadThresholdResult {
	var results []v1alpha1.LoadThresholdResult
	for _, threshold := range thresholds {
		result := v1alpha1.LoadThresholdResult{LoadThreshold: threshold}
		if threshold.Measurement == v1alpha1.LoadErrors {
			result.Count = requests
			if requests > 0 {
				percent := float64(failed) / float64(requests) * 100
				result.MeasuredPercent = percentText(failed, requests)
				result.Met = threshold.MaxPercent != nil && percent <= float64(*threshold.MaxPercent)
			}
		} else if all, certain, unfinished := measured.matchHistograms(keyOfThreshold(&threshold)); all != nil {
			percent := percentOf(threshold.Quantile)
			value, known := quantileOf(all, percent), quantileOf(certain, percent).Duration
			result.Count, result.Measured, result.Unfinished = all.TotalCount(), &value, unfinished
			result.Met = threshold.Max != nil && isWithin(certain, known, threshold.Max.Duration)
			if unfinished > 0 || threshold.Measurement == v1alpha1.LoadAPIServerRequest {
				// An hour stands for longer than can be told.
				result.Met = result.Met && known < longest*time.Microsecond
			}
		}
		results = append(results, result)
	}
	return results
}

// percentText is a part of 100 with two decimal places. Some are never none, nor all of them.
func percentText(part, all int64) string {
	hundredths := part * 10_000 / max(all, 1)
	if hundredths == 0 && part > 0 {
		hundredths = 1
	}
	return fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
}

func keyOfThreshold(t *v1alpha1.LoadThreshold) Key {
	return Key{Measurement: t.Measurement, Verb: t.Verb, Resource: t.Resource, Scope: t.RequestScope}
}

// isWithin reports whether a quantile of a histogram is at most a limit. It is the end of its bucket, so that the quantile of
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

// Describe says in words what happened to a threshold, such as "PodReady P99 6.1s, not 5s".
func Describe(result *v1alpha1.LoadThresholdResult) string {
	limit, measured := "", "not measured"
	if result.Measurement == v1alpha1.LoadErrors {
		if result.MaxPercent != nil {
			limit = fmt.Sprintf("%d%%", *result.MaxPercent)
		}
		if result.MeasuredPercent != "" {
			measured = result.MeasuredPercent + "%"
		}
	} else {
		if result.Max != nil {
			limit = result.Max.Duration.String()
		}
		if result.Measured != nil {
			measured = TimeText(*result.Measured, result.Measurement == v1alpha1.LoadAPIServerRequest, result.Unfinished > 0)
		}
	}
	name := NameOfThreshold(&result.LoadThreshold)
	if result.Met {
		return fmt.Sprintf("%s %s, at most %s", name, measured, limit)
	}
	text := fmt.Sprintf("%s %s, not %s", name, measured, limit)
	if result.Unfinished > 0 {
		text += fmt.Sprintf(" (%d of %d %s)", result.Unfinished, result.Count, unfinishedText(result.Measurement))
	}
	return text
}

// NameOfThreshold is what a threshold limits, such as "PodReady P99".
func NameOfThreshold(t *v1alpha1.LoadThreshold) string {
	name := keyOfThreshold(t).String()
	if t.Measurement != v1alpha1.LoadErrors {
		name += " " + string(cmp.Or(t.Quantile, v1alpha1.LoadP99))
	}
	return name
}

// LimitText is a threshold in words, such as "PodReady P99<=5s".
func LimitText(t *v1alpha1.LoadThreshold) string {
	switch {
	case t.MaxPercent != nil:
		return fmt.Sprintf("%s<=%d%%", NameOfThreshold(t), *t.MaxPercent)
	case t.Max != nil:
		return fmt.Sprintf("%s<=%s", NameOfThreshold(t), t.Max.Duration)
	}
	return NameOfThreshold(t)
}

// unfinishedText says what has not happened to the objects of a measurement.
func unfinishedText(measurement v1alpha1.LoadMeasurement) string {
	switch measurement {
	case v1alpha1.LoadPodScheduled:
		return "pods were never scheduled"
	case v1alpha1.LoadPodInitialized:
		return "pods were never initialized"
	case v1alpha1.LoadPodRunning:
		return "pods never ran"
	case v1alpha1.LoadPodReady, v1alpha1.LoadPodReadyByObject:
		return "pods were never Ready"
	case v1alpha1.LoadNodeReady:
		return "Nodes were not Ready at the end"
	case v1alpha1.LoadDeploymentRollout:
		return "Deployments were not rolled out"
	case v1alpha1.LoadAPIRequest, v1alpha1.LoadAPIRequestWait, v1alpha1.LoadAPIRequestFailed, v1alpha1.LoadAPIServerRequest, v1alpha1.LoadErrors:
	}
	return "had not ended"
}

// TimeText is a measured time as people read it: "<= 50ms" for the upper bound of a bucket, and ">= 15s" where some had not ended
// and had waited so long.
func TimeText(d metav1.Duration, isBound, isUnfinished bool) string {
	text := Round(d.Duration).String()
	switch {
	case isBound && d.Duration >= time.Hour:
		return "> longest bucket"
	case isBound:
		return "<= " + text
	case isUnfinished:
		return ">= " + text
	}
	return text
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
