package hollownode

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	kubeletevents "k8s.io/kubernetes/pkg/kubelet/events"
)

// rememberedEvents is how many events are kept to recognise the next ones as repetitions. The library's
// 4096 grow to several megabytes on a node that many pods pass through.
const rememberedEvents = 128

// newRecorder returns a recorder that sends events with the usual aggregation and spam filter.
func newRecorder(ctx context.Context, nodeName string, events typedcorev1.EventsGetter) record.EventRecorderLogger {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx),
		record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: rememberedEvents}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: events.Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: nodeName})
	return &startRecorder{EventRecorderLogger: recorder, told: &startEvents{told: map[string]bool{}}}
}

// startRecorder records each event of a Node once until the Node is ready. A kubelet repeats those of its start with every try to report,
// ten times a second, which is a quarter of the writes with which a node joins.
type startRecorder struct {
	record.EventRecorderLogger
	told *startEvents
}

// WithLogger implements record.EventRecorderLogger.
func (r *startRecorder) WithLogger(logger klog.Logger) record.EventRecorderLogger {
	return &startRecorder{EventRecorderLogger: r.EventRecorderLogger.WithLogger(logger), told: r.told}
}

// Eventf implements record.EventRecorder.
func (r *startRecorder) Eventf(object runtime.Object, kind, reason, format string, arguments ...any) {
	if r.told.isRepeated(object, reason, fmt.Sprintf(format, arguments...)) {
		return
	}
	r.EventRecorderLogger.Eventf(object, kind, reason, format, arguments...)
}

// startEvents are those that were recorded of a Node since its kubelet started.
type startEvents struct {
	mu sync.Mutex
	// told is nil once the Node has been ready.
	told map[string]bool
}

func (e *startEvents) isRepeated(object runtime.Object, reason, message string) bool {
	about, ok := object.(*corev1.ObjectReference)
	if !ok || about.Kind != "Node" {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.told == nil || reason == kubeletevents.NodeReady {
		e.told = nil
		return false
	}
	key := reason + " " + message
	repeated := e.told[key]
	e.told[key] = true
	return repeated
}

// recorderSwitch hands the kubelet its recorder at the one moment that avoids the kernel log. While a
// kubelet is built it opens /dev/kmsg to watch for killed processes, which takes privileges; it does so
// unless its recorder is the fake one. It takes a tracer next, before it keeps the recorder anywhere, and
// that is when the recorder is exchanged.
type recorderSwitch struct {
	trace.TracerProvider
	dependencies *kubelet.Dependencies
	recorder     record.EventRecorderLogger
}

// deferRecorder sets the recorder and the tracer of d.
func deferRecorder(d *kubelet.Dependencies, recorder record.EventRecorderLogger) {
	d.Recorder = &record.FakeRecorder{}
	d.TracerProvider = &recorderSwitch{
		TracerProvider: noop.NewTracerProvider(), dependencies: d, recorder: recorder,
	}
}

// Tracer returns a tracer that records nothing.
func (s *recorderSwitch) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	s.dependencies.Recorder = s.recorder
	return s.TracerProvider.Tracer(name, options...)
}
