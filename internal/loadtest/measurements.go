package loadtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// shortest and longest are the microseconds that a histogram tells apart, with that many digits.
	shortest, longest, digits = 1, 3_600_000_000, 3
	// mostHistograms, mostBytesOfOne and mostBytes bound what a run reports. An object on the API server has 1.5 MiB at most.
	mostHistograms, mostBytesOfOne, mostBytes = 64, 15_000, 256 << 10
)

// Key is what a histogram is about. Verb and Resource are set for requests only.
type Key struct {
	Measurement    v1alpha1.LoadMeasurement
	Verb, Resource string
}

// Measurements are histograms by what they are about. It is not safe for concurrent use.
type Measurements map[Key]*hdrhistogram.Histogram

// Record adds a measured time, count times. One that is longer than an hour counts as an hour.
func (m Measurements) Record(key Key, measured time.Duration, count int64) {
	if count <= 0 {
		return
	}
	histogram := m[key]
	if histogram == nil {
		histogram = hdrhistogram.New(shortest, longest, digits)
		m[key] = histogram
	}
	// The value is in the range, so that there is no error.
	_ = histogram.RecordValues(min(max(measured.Microseconds(), shortest), longest), count)
}

// Merge adds all that was measured in others.
func (m Measurements) Merge(others Measurements) {
	for key, other := range others {
		if m[key] == nil {
			m[key] = hdrhistogram.New(shortest, longest, digits)
		}
		m[key].Merge(other)
	}
}

// Match is the histogram of what a key is about, those of all verbs or resources together where it names none; nil without any
// measurement.
func (m Measurements) Match(wanted Key) *hdrhistogram.Histogram {
	var all *hdrhistogram.Histogram
	for key, histogram := range m {
		if key.Measurement != wanted.Measurement || (wanted.Verb != "" && wanted.Verb != key.Verb) || (wanted.Resource != "" && wanted.Resource != key.Resource) {
			continue
		}
		if all == nil {
			all = hdrhistogram.New(shortest, longest, digits)
		}
		all.Merge(histogram)
	}
	return all
}

// Keys are what was measured, the most frequent first.
func (m Measurements) Keys() []Key {
	keys := slices.Collect(maps.Keys(m))
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(m[b].TotalCount(), m[a].TotalCount()),
			cmp.Compare(a.Measurement, b.Measurement), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Resource, b.Resource))
	})
	return keys
}

// Encode writes the histograms for a status: those of pods, Nodes and Deployments, and then as many of requests as its size allows,
// the most frequent first. It returns how many were left out.
func (m Measurements) Encode() ([]v1alpha1.LoadHistogram, int, error) {
	var list []v1alpha1.LoadHistogram
	bytes, omitted := 0, 0
	keys := m.Keys()
	slices.SortStableFunc(keys, func(a, b Key) int { return cmp.Compare(min(len(a.Verb), 1), min(len(b.Verb), 1)) })
	for _, key := range keys {
		data, err := m[key].Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		if err != nil {
			return nil, 0, fmt.Errorf("encoding the histogram of %s: %w", key, err)
		}
		if len(list) == mostHistograms || len(data) > mostBytesOfOne || bytes+len(data) > mostBytes {
			omitted++
			continue
		}
		bytes += len(data)
		list = append(list, v1alpha1.LoadHistogram{LoadLatency: Summarize(key, m[key]), Data: data})
	}
	return list, omitted, nil
}

// String names what a key is about.
func (k Key) String() string {
	name := string(k.Measurement)
	if k.Verb != "" {
		name += " " + k.Verb
	}
	if k.Resource != "" {
		name += " " + k.Resource
	}
	return name
}

// Summarize is the summary of a histogram.
func Summarize(key Key, histogram *hdrhistogram.Histogram) v1alpha1.LoadLatency {
	return v1alpha1.LoadLatency{
		Measurement: key.Measurement, Verb: key.Verb, Resource: key.Resource, Count: histogram.TotalCount(),
		P50: quantile(histogram, 50), P90: quantile(histogram, 90), P99: quantile(histogram, 99), Max: quantile(histogram, 100),
	}
}

// quantile of the measured times.
func quantile(histogram *hdrhistogram.Histogram, percent float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(histogram.ValueAtPercentile(percent)) * time.Microsecond}
}
