package loadtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// shortest and longest are the microseconds that a histogram tells apart, with that many digits.
	shortest, longest, digits = 1, 3_600_000_000, 3
	// mostHistograms, mostBytesOfOne and mostBytes bound what a run reports. An object on the API server has 1.5 MiB at most.
	mostHistograms, mostBytesOfOne, mostBytes = 128, 15_000, 256 << 10
)

// Key is what a histogram is about. Verb, Resource and Scope are set for requests only.
type Key struct {
	Measurement    v1alpha1.LoadMeasurement
	Verb, Resource string
	// Scope is that of requests which the API server has counted: resource, namespace or cluster.
	Scope string
	// Unfinished are measurements of what had not ended: the times are how long it had waited.
	Unfinished bool
}

// KeyOf is what a summary is about.
func KeyOf(l *v1alpha1.LoadLatency) Key {
	return Key{Measurement: l.Measurement, Verb: l.Verb, Resource: l.Resource, Scope: l.RequestScope}
}

// unfinishedKey is the key of what of it had not ended.
func (k Key) unfinishedKey() Key {
	k.Unfinished = true
	return k
}

// matchesKey reports whether what is known by a key is part of what is wanted.
func (k Key) matchesKey(wanted Key) bool {
	return k.Measurement == wanted.Measurement && (wanted.Verb == "" || wanted.Verb == k.Verb) && (wanted.Scope == "" || wanted.Scope == k.Scope) &&
		(wanted.Resource == "" || matchesResource(k.Resource, wanted.Resource))
}

// matchesResource compares resources such as deployments.apps/scale. Without a group any is wanted, without a subresource none.
func matchesResource(resource, wanted string) bool {
	resource, subresource, _ := strings.Cut(resource, "/")
	wanted, wantedSubresource, _ := strings.Cut(wanted, "/")
	if !strings.Contains(wanted, ".") {
		resource, _, _ = strings.Cut(resource, ".")
	}
	return resource == wanted && subresource == wantedSubresource
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
		histogram = newHistogram()
		m[key] = histogram
	}
	// The value is in the range, so that there is no error.
	_ = histogram.RecordValues(min(max(measured.Microseconds(), shortest), longest), count)
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, digits) }

// Merge adds all that was measured in others.
func (m Measurements) Merge(others Measurements) {
	for key, other := range others {
		if m[key] == nil {
			m[key] = newHistogram()
		}
		m[key].Merge(other)
	}
}

// Match is the histogram of what a key is about, those of all verbs, resources or scopes together where it names none; nil without any
// measurement. What had not ended is in it with the time that it had waited.
func (m Measurements) Match(wanted Key) *hdrhistogram.Histogram {
	all, _, _ := m.matchHistograms(wanted)
	return all
}

// matchHistograms returns what a key is about; nil without any. Unfinished is how many had not ended. In all they have taken as long as they had
// waited, and in certain as long as there is: nothing else is known of them.
func (m Measurements) matchHistograms(wanted Key) (all, certain *hdrhistogram.Histogram, unfinished int64) {
	for key, histogram := range m {
		if !key.matchesKey(wanted) || histogram.TotalCount() == 0 {
			continue
		}
		if all == nil {
			all, certain = newHistogram(), newHistogram()
		}
		all.Merge(histogram)
		if !key.Unfinished {
			certain.Merge(histogram)
			continue
		}
		unfinished += histogram.TotalCount()
		// The value is in the range, so that there is no error.
		_ = certain.RecordValues(longest, histogram.TotalCount())
	}
	return all, certain, unfinished
}

// Only is what is about a key, and what of it had not ended.
func (m Measurements) Only(key Key) Measurements {
	only := Measurements{}
	for _, key := range []Key{key, key.unfinishedKey()} {
		if m[key] != nil {
			only[key] = m[key]
		}
	}
	return only
}

// Take returns what is about a key, and what of it had not ended, and removes it.
func (m Measurements) Take(key Key) Measurements {
	taken := m.Only(key)
	maps.DeleteFunc(m, func(key Key, _ *hdrhistogram.Histogram) bool { return taken[key] != nil })
	return taken
}

// Keys are what was measured, the most frequent first.
func (m Measurements) Keys() []Key {
	counts := map[Key]int64{}
	for key, histogram := range m {
		key.Unfinished = false
		counts[key] += histogram.TotalCount()
	}
	return slices.SortedFunc(maps.Keys(counts), func(a, b Key) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.Measurement, b.Measurement), cmp.Compare(a.Verb, b.Verb),
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Scope, b.Scope))
	})
}

// Rank orders what is kept if not all can be: what is measured of objects, then the requests of runs, then those of all clients.
func (k Key) Rank() int {
	switch {
	case k.Measurement == v1alpha1.LoadAPIServerRequest:
		return 2
	case k.Verb != "":
		return 1
	}
	return 0
}

// Encode writes the histograms for a status: those of pods, Nodes and Deployments, and then as many of requests as its size allows,
// those of the run and the most frequent first. It returns how many were left out.
func (m Measurements) Encode() ([]v1alpha1.LoadHistogram, int, error) {
	var list []v1alpha1.LoadHistogram
	bytes, omitted := 0, 0
	keys := m.Keys()
	slices.SortStableFunc(keys, func(a, b Key) int { return cmp.Compare(a.Rank(), b.Rank()) })
	for _, key := range keys {
		data, err := m.encodeHistogram(key)
		if err != nil {
			return nil, 0, err
		}
		unfinished, err := m.encodeHistogram(key.unfinishedKey())
		if err != nil {
			return nil, 0, err
		}
		if m[key.unfinishedKey()] == nil {
			unfinished = nil
		}
		size := len(data) + len(unfinished)
		if len(list) == mostHistograms || max(len(data), len(unfinished)) > mostBytesOfOne || bytes+size > mostBytes {
			omitted++
			continue
		}
		bytes += size
		list = append(list, v1alpha1.LoadHistogram{LoadLatency: m.Summarize(key), Data: data, UnfinishedData: unfinished})
	}
	return list, omitted, nil
}

// encodeHistogram writes one histogram; an empty one if there is none.
func (m Measurements) encodeHistogram(key Key) ([]byte, error) {
	histogram := m[key]
	if histogram == nil {
		histogram = newHistogram()
	}
	data, err := histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encoding the histogram of %s: %w", key, err)
	}
	return data, nil
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
	if k.Scope != "" && k.Scope != "resource" {
		name += " (" + k.Scope + ")"
	}
	return name
}

// Summarize is the summary of what was measured by a key, which has to be there.
func (m Measurements) Summarize(key Key) v1alpha1.LoadLatency {
	all := newHistogram()
	latency := v1alpha1.LoadLatency{
		Measurement: key.Measurement, Verb: key.Verb, Resource: key.Resource, RequestScope: key.Scope, Bounds: key.Measurement == v1alpha1.LoadAPIServerRequest,
	}
	if finished := m[key]; finished != nil {
		all.Merge(finished)
	}
	if unfinished := m[key.unfinishedKey()]; unfinished != nil {
		all.Merge(unfinished)
		latency.Unfinished = unfinished.TotalCount()
	}
	latency.Count = all.TotalCount()
	latency.P50, latency.P90, latency.P99, latency.Max = quantileOf(all, 50), quantileOf(all, 90), quantileOf(all, 99), quantileOf(all, 100)
	return latency
}

// quantileOf of the measured times.
func quantileOf(histogram *hdrhistogram.Histogram, percent float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(histogram.ValueAtPercentile(percent)) * time.Microsecond}
}
