package hollownode

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet"
)

// rememberedEvents is how many events are kept to recognise the next ones as repetitions. The library's
// 4096 grow to several megabytes on a node that many pods pass through.
const rememberedEvents = 128

// newRecorder returns a recorder that sends events with the usual aggregation and spam filter.
func newRecorder(ctx context.Context, nodeName string, events typedcorev1.EventsGetter) record.EventRecorderLogger {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx),
		record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: rememberedEvents}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: events.Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: nodeName})
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
