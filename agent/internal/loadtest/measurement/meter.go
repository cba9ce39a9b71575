package measurement

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// Meter measures one run.
type Meter struct {
	Book     *Book
	Recorder *Recorder
	Pods     *PodTracker
	Nodes    *NodeTracker

	run           *v1alpha1.LoadTestRun
	clock         clock.PassiveClock
	nodeInformers cache.Informers
	load          *clients.Load
	// watched are the resources, but pods, whose objects are followed, with their kinds.
	watched map[schema.GroupVersionResource]schema.GroupKind
	// watching is how the watches do, and offset how far the API server's clock is from the agent's.
	watching *watchHealth
	offset   *clockOffset
}

// New returns the Meter of a run. Its informers have the hollow Nodes.
func New(run *v1alpha1.LoadTestRun, clock clock.PassiveClock, nodeInformers cache.Informers) *Meter {
	recorder := newRecorder()
	return &Meter{
		Book: newBook(), Recorder: recorder, Pods: newPodTracker(run.UID, recorder.recordTime), Nodes: newNodeTracker(recorder.recordTime),
		run: run, clock: clock, nodeInformers: nodeInformers, watching: newWatchHealth(clock), offset: &clockOffset{},
	}
}

// ObserveAnswers counts the answers that ask to come again later, which client-go does by itself, and learns from all of them what the API
// server's clock says.
func (m *Meter) ObserveAnswers(inner http.RoundTripper) http.RoundTripper {
	return answerObserver{inner, m}
}

type answerObserver struct {
	inner http.RoundTripper
	meter *Meter
}

// RoundTrip implements http.RoundTripper.
func (o answerObserver) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.inner.RoundTrip(request)
	if err == nil {
		o.meter.offset.addAnswer(response.Header, o.meter.clock.Now())
		if response.StatusCode == http.StatusTooManyRequests {
			o.meter.Recorder.Throttled.Add(1)
		}
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the connections below.
func (o answerObserver) WrappedRoundTripper() http.RoundTripper { return o.inner }

// MarkCreated notes that the API server has answered that it made an object.
func (m *Meter) MarkCreated(o *Object, now time.Time) {
	if took, ready := m.Book.markCreated(o, now); ready {
		m.recordRollout(o.kind, took, now)
	}
	if o.kind == podKind {
		m.Pods.markAnswered(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, now)
	}
}

// MarkDeleted notes the answer to the deletion of an object that had waited so long to be ready.
func (m *Meter) MarkDeleted(o *Object, waited time.Duration, err error, now time.Time) {
	if o.kind == deploymentKind && waited > 0 && err == nil {
		m.Recorder.recordTime(measure.Key{Measurement: v1alpha1.LoadDeploymentRollout, Unfinished: true}, waited, now)
	}
	_, followed := m.watched[o.resource]
	if err != nil || !followed && o.kind != podKind {
		// No watch follows objects of its kind, or it is not known whether the API server has deleted it.
		m.Book.RemoveObject(o)
	}
}

// RecordUnfinished records what had not ended when the steps were over. Nodes that a disruption was on are not in order on purpose.
func (m *Meter) RecordUnfinished(disrupted map[string]bool, now time.Time) {
	m.Pods.recordUnfinished(now)
	for _, missing := range m.Book.endLacks(now) {
		m.Pods.recordLack(missing, now)
	}
	m.Nodes.recordUnready(disrupted, now)
	for _, waited := range m.Book.unfinishedRollouts(now) {
		m.Recorder.recordTime(measure.Key{Measurement: v1alpha1.LoadDeploymentRollout, Unfinished: true}, waited, now)
	}
}

// WatchHealth is how many times the watches were interrupted, how late they were at most, and how late while requests were answered in
// time: what is late as a whole is the API server.
func (m *Meter) WatchHealth() (interruptions int32, lag, unexplained time.Duration) {
	lags := &m.watching.lags
	return m.watching.countInterruptions(), lags.longestUnexplained(&longestByTime{}), lags.longestUnexplained(&m.Recorder.slow)
}
