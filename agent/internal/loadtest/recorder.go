package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

const (
	// mostErrors is how many reasons a status tells, and mostErrorMessage how long the message of each is.
	mostErrors, mostErrorMessage = 20, 512
	// mostErrorKeys bounds those that are kept.
	mostErrorKeys = 200
)

// recorder takes in what is measured. All its methods may be called at the same time.
type recorder struct {
	mu       sync.Mutex
	measured measure.Measurements
	series   map[v1alpha1.LoadMeasurement]*series
	errors   map[errorKey]*v1alpha1.LoadError
	start    time.Time
	// omitted are the histograms that were left out when they were encoded last.
	omitted int

	requests, failed, late, throttled atomic.Int64
	// delayed are the requests that waited for earlier ones, and skipped those that had no object.
	delayed, skipped atomic.Int64
	// slow has the longest time that the API server took for a request, by when that ended.
	slow longestByTime
}

type errorKey struct{ reason, request string }

func newRecorder() *recorder {
	return &recorder{
		measured: measure.Measurements{}, errors: map[errorKey]*v1alpha1.LoadError{},
		series: map[v1alpha1.LoadMeasurement]*series{v1alpha1.LoadPodReady: newSeries(), v1alpha1.LoadAPIRequest: newSeries()},
	}
}

// startSeries sets the time from which series count.
func (r *recorder) startSeries(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = at
}

// recordTime adds a measured time that ended at a point of time.
func (r *recorder) recordTime(key measure.Key, measured time.Duration, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured.Record(key, measured, 1)
	if s := r.series[key.Measurement]; s != nil && !r.start.IsZero() {
		s.recordTime(at.Sub(r.start), measured)
	}
}

// mergeMeasurements adds what was measured elsewhere.
func (r *recorder) mergeMeasurements(others measure.Measurements) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured.Merge(others)
}

// sentRequest is when a request of the run was due, how long it then waited for earlier ones, and when it was sent.
type sentRequest struct {
	due    time.Time
	waited time.Duration
	sent   time.Time
}

// recordAnswer takes in the answer to a request of the run. Its time counts from when it was due.
func (r *recorder) recordAnswer(verb, resource string, request sentRequest, err error, at time.Time) {
	r.requests.Add(1)
	measurement := v1alpha1.LoadAPIRequest
	if err != nil {
		measurement = v1alpha1.LoadAPIRequestFailed
	}
	r.recordTime(measure.Key{Measurement: measurement, Verb: verb, Resource: resource}, at.Sub(request.due), at)
	r.recordTime(measure.Key{Measurement: v1alpha1.LoadAPIRequestWait}, request.waited, at)
	r.slow.addTime(at, at.Sub(request.sent))
	if err == nil {
		return
	}
	r.failed.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	key := errorKey{reasonOf(err), verb + " " + resource}
	known := r.errors[key]
	if known == nil {
		if len(r.errors) >= mostErrorKeys {
			return
		}
		known = &v1alpha1.LoadError{
			Reason: conditions.Shorten(key.reason, 64), Request: conditions.Shorten(key.request, 160), Message: conditions.Shorten(err.Error(), mostErrorMessage),
		}
		r.errors[key] = known
	}
	known.Count++
}

// evaluateThresholds says which thresholds are met by what was measured until now.
func (r *recorder) evaluateThresholds(thresholds []v1alpha1.LoadThreshold) []v1alpha1.LoadThresholdResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return measure.Evaluate(thresholds, r.measured, r.requests.Load(), r.failed.Load())
}

// encodeMeasurements is what a status tells of the measurements.
func (r *recorder) encodeMeasurements() ([]v1alpha1.LoadHistogram, []v1alpha1.LoadSeries, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, omitted, err := r.measured.Encode()
	r.omitted = omitted
	var over []v1alpha1.LoadSeries
	for _, measurement := range slices.Sorted(maps.Keys(r.series)) {
		if points := r.series[measurement].encodePoints(); len(points) > 0 {
			over = append(over, v1alpha1.LoadSeries{Measurement: measurement, Points: points})
		}
	}
	return list, over, err
}

// leftOut says what the report of a run does not have, because that would be too large for an object; empty for nothing.
func (r *recorder) leftOut() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.omitted == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d kinds of measurements are left out, all of them of requests: they do not fit into one object", r.omitted, len(r.measured))
}

// delayedText says that requests had to wait for earlier ones; empty if none had.
func (r *recorder) delayedText() string {
	delayed := r.delayed.Load()
	if delayed == 0 {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	longest := r.measured.Summarize(measure.Key{Measurement: v1alpha1.LoadAPIRequestWait}).Max.Duration
	return fmt.Sprintf("%d of %d requests waited up to %s for earlier ones to be answered: a phase has at most %d in flight. The wait counts in %s",
		delayed, r.requests.Load(), measure.Round(longest), mostAtOnce, v1alpha1.LoadAPIRequest)
}

// frequentFailures are why requests failed, the most frequent first.
func (r *recorder) frequentFailures() []v1alpha1.LoadError {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []v1alpha1.LoadError
	for _, known := range r.errors {
		list = append(list, *known)
	}
	slices.SortFunc(list, func(a, b v1alpha1.LoadError) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Request, b.Request), cmp.Compare(a.Reason, b.Reason))
	})
	return list[:min(len(list), mostErrors)]
}

// reasonOf is a word for why a request failed.
func reasonOf(err error) string {
	var network net.Error
	var refused templateError
	switch reason := apierrors.ReasonForError(err); {
	case reason != "":
		return string(reason)
	case errors.As(err, &refused):
		return "Template"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "Timeout"
	case apierrors.ReasonForError(err) == "" && errors.As(err, &network):
		return "Unreachable"
	default:
		return "Unknown"
	}
}

// templateError is that a template made no object.
type templateError struct{ error }

// Unwrap implements errors.
func (e templateError) Unwrap() error { return e.error }

// throttleCounter counts answers that ask to come again later. client-go makes such requests again by itself.
type throttleCounter struct {
	inner http.RoundTripper
	count func()
	// answered is told of the header of each answer.
	answered func(http.Header)
}

// RoundTrip implements http.RoundTripper.
func (t throttleCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.inner.RoundTrip(request)
	if err == nil {
		t.answered(response.Header)
		if response.StatusCode == http.StatusTooManyRequests {
			t.count()
		}
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the connections below.
func (t throttleCounter) WrappedRoundTripper() http.RoundTripper { return t.inner }
