package measurement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// Recorder takes in what is measured. All its methods may be called at the same time.
type Recorder struct {
	mu       sync.Mutex
	measured measure.Measurements
	series   map[v1alpha1.LoadMeasurement]*series
	errors   map[errorKey]*v1alpha1.LoadError
	start    time.Time
	// omitted are the histograms that were left out when they were encoded last.
	omitted int

	Requests, Failed, Late, Throttled atomic.Int64
	// Delayed are the requests that waited for earlier ones, and Skipped those that had no object.
	Delayed, Skipped atomic.Int64
	// slow has the longest time that the API server took for a request, by when that ended.
	slow longestByTime
}

type errorKey struct{ reason, request string }

func newRecorder() *Recorder {
	return &Recorder{
		measured: measure.Measurements{}, errors: map[errorKey]*v1alpha1.LoadError{},
		series: map[v1alpha1.LoadMeasurement]*series{v1alpha1.LoadPodReady: newSeries(), v1alpha1.LoadAPIRequest: newSeries()},
	}
}

// StartSeries sets the time from which series count.
func (r *Recorder) StartSeries(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = at
}

// recordTime adds a measured time that ended at a point of time.
func (r *Recorder) recordTime(key measure.Key, measured time.Duration, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured.Record(key, measured, 1)
	if s := r.series[key.Measurement]; s != nil && !r.start.IsZero() {
		s.recordTime(at.Sub(r.start), measured)
	}
}

// mergeMeasurements adds what was measured elsewhere.
func (r *Recorder) mergeMeasurements(others measure.Measurements) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured.Merge(others)
}

// SentRequest is when a request of the run was due, how long it then waited for earlier ones, and when it was sent.
type SentRequest struct {
	Due    time.Time
	Waited time.Duration
	Sent   time.Time
}

// RecordAnswer takes in the answer to a request of the run. Its time counts from when it was due.
func (r *Recorder) RecordAnswer(verb, resource string, request SentRequest, err error, at time.Time) {
	r.Requests.Add(1)
	measurement := v1alpha1.LoadAPIRequest
	if err != nil {
		measurement = v1alpha1.LoadAPIRequestFailed
	}
	r.recordTime(measure.Key{Measurement: measurement, Verb: verb, Resource: resource}, at.Sub(request.Due), at)
	r.recordTime(measure.Key{Measurement: v1alpha1.LoadAPIRequestWait}, request.Waited, at)
	r.AddAnswerTime(at, at.Sub(request.Sent))
	if err == nil {
		return
	}
	r.Failed.Add(1)
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

// AddAnswerTime takes in how long the API server took for a request.
func (r *Recorder) AddAnswerTime(at time.Time, took time.Duration) { r.slow.addTime(at, took) }

// EvaluateThresholds says which thresholds are met by what was measured until now.
func (r *Recorder) EvaluateThresholds(thresholds []v1alpha1.LoadThreshold) []v1alpha1.LoadThresholdResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return measure.Evaluate(thresholds, r.measured, r.Requests.Load(), r.Failed.Load())
}

// EncodeMeasurements is what a status tells of the measurements.
func (r *Recorder) EncodeMeasurements() ([]v1alpha1.LoadHistogram, []v1alpha1.LoadSeries, error) {
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

// LeftOut says what the report of a run does not have, because that would be too large for an object; empty for nothing.
func (r *Recorder) LeftOut() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.omitted == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d kinds of measurements are left out, all of them of requests: they do not fit into one object", r.omitted, len(r.measured))
}

// DelayedText says that requests had to wait for earlier ones, because a phase has so many in flight at most; empty if none had.
func (r *Recorder) DelayedText(inFlight int) string {
	delayed := r.Delayed.Load()
	if delayed == 0 {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	longest := r.measured.Summarize(measure.Key{Measurement: v1alpha1.LoadAPIRequestWait}).Max.Duration
	return fmt.Sprintf("%d of %d requests waited up to %s for earlier ones to be answered: a phase has at most %d in flight. The wait counts in %s",
		delayed, r.Requests.Load(), measure.Round(longest), inFlight, v1alpha1.LoadAPIRequest)
}

// FrequentFailures are why requests failed, the most frequent first.
func (r *Recorder) FrequentFailures() []v1alpha1.LoadError {
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
	var refused TemplateError
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

// TemplateError is that a template made no object.
type TemplateError struct{ Err error }

func (e TemplateError) Error() string { return e.Err.Error() }

// Unwrap implements errors.
func (e TemplateError) Unwrap() error { return e.Err }

const (
	// mostPoints and shortestPoint are what the API says of series.
	mostPoints    = 120
	shortestPoint = 5 * time.Second
	// longestMeasured is in microseconds, as in histograms. Points need fewer digits than those.
	longestMeasured, pointDigits = 3_600_000_000, 2
)

// series is a measurement over time. When it has too many points, each two become one.
type series struct {
	width  time.Duration
	points []*hdrhistogram.Histogram
}

func newSeries() *series { return &series{width: shortestPoint} }

// recordTime adds what was measured at a time since the beginning.
func (s *series) recordTime(at, measured time.Duration) {
	i := int(max(at, 0) / s.width)
	for i >= mostPoints {
		s.widenSlices()
		i = int(at / s.width)
	}
	for len(s.points) <= i {
		s.points = append(s.points, nil)
	}
	if s.points[i] == nil {
		s.points[i] = hdrhistogram.New(1, longestMeasured, pointDigits)
	}
	// The value is in the range: this cannot fail.
	_ = s.points[i].RecordValue(min(max(measured.Microseconds(), 1), longestMeasured))
}

func (s *series) widenSlices() {
	s.width *= 2
	for i, point := range s.points {
		switch {
		case i%2 == 0:
			s.points[i/2] = point
		case s.points[i/2] == nil:
			s.points[i/2] = point
		case point != nil:
			s.points[i/2].Merge(point)
		}
	}
	s.points = s.points[:(len(s.points)+1)/2]
}

// encodePoints is the series in a status. Times in which nothing was measured are left out.
func (s *series) encodePoints() []v1alpha1.LoadPoint {
	var points []v1alpha1.LoadPoint
	for i, point := range s.points {
		if point == nil {
			continue
		}
		at := func(percent float64) metav1.Duration {
			return metav1.Duration{Duration: time.Duration(point.ValueAtPercentile(percent)) * time.Microsecond}
		}
		points = append(points, v1alpha1.LoadPoint{
			Seconds: int32(time.Duration(i) * s.width / time.Second), Count: point.TotalCount(), P50: at(50), P99: at(99),
		})
	}
	return points
}
