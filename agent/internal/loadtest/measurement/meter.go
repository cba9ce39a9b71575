// Package measurement measures what the load of one run does to its cluster. A Meter has the parts:
//
//	measurement          from                          until                           type, file
//	PodScheduled, Pod…   the answer to the creation¹   the watch shows the stage       PodTracker, pods.go
//	PodReadyByObject     metadata.creationTimestamp    the Ready condition's time      PodTracker, pods.go
//	NodeReady            the watch: new or not Ready   the watch shows it Ready        NodeTracker, nodes.go
//	DeploymentRollout    the answer to the creation    the watch shows it ready        Book, book.go
//	APIRequest, …Failed  the request was due           its answer                      Recorder, recorder.go
//	APIRequestWait       the request was due           a slot was free for it          Recorder, recorder.go
//	APIServerRequest     the API server's own histogram, after less before             ServerCounts, apiserver.go
//
//	¹ Pods that a controller makes: the watch shows them first. Of a watch that is behind, their creationTimestamp (offset.go).
//
// What has not ended when the steps are over, or when its object is deleted, counts as Unfinished with the time that it waited so far; also
// pods that an object asks for and that were never created (lacking.go). Why pods were never Ready is in unready.go.
//
// These make the times of a run invalid, and the run with them; the first two by WatchHealth, the others by what loadtest observes of itself:
//
//	a watch that is interrupted, or lists again        PodScheduled … PodReady, DeploymentRollout: events have the time of the list
//	a watch of pods that is behind by itself           PodScheduled … PodReady
//	requests that are made after their time            APIRequest, unless they waited for earlier ones
//	an agent that stands still                         all but APIServerRequest and PodReadyByObject
//	hollow nodes that do not keep up                   Pod…, NodeReady
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
