package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

// scope is the name of the instrumentation, by convention the path of its package.
const scope = "github.com/hollowfleet/hollowfleet/internal/telemetry"

// rememberedObjects bounds the memory of Settle. An object that is forgotten may once continue an old trace.
const rememberedObjects = 4096

// Tracer makes the spans of one controller. Nil makes none, and costs nothing.
type Tracer struct {
	tracer  trace.Tracer
	settled *lru.Cache
}

// NewTracer returns a Tracer; nil if provider is nil or makes no spans.
func NewTracer(provider trace.TracerProvider) *Tracer {
	if _, off := provider.(noop.TracerProvider); off || provider == nil {
		return nil
	}
	return &Tracer{tracer: provider.Tracer(scope), settled: lru.New(rememberedObjects)}
}

// From says where a span belongs.
type From struct {
	// Traceparent is what an object's annotation says. What cannot be read counts as empty.
	Traceparent string
	// Repeated: the work that the traceparent stands for was done before, and this is another one for the same order. Its
	// span starts a trace of its own with a link to that one: traces end, and objects are reconciled for years.
	Repeated bool
}

// End ends a span; err is why what it stands for has failed. What only waits, such as a conflict, is no failure.
type End func(err error)

func ignoreError(error) {}

// Continue starts a span in the trace that from names: as a child of that span, or with a link to it; in a new trace if it
// names none. The context's logger has the span's ids. The caller ends the span.
func (t *Tracer) Continue(ctx context.Context, name string, from From, attributes ...attribute.KeyValue) (context.Context, End) {
	if t == nil {
		return ctx, ignoreError
	}
	ctx, options := t.placeSpan(ctx, from)
	return beginLogging(t.tracer.Start(ctx, name, append(options, trace.WithAttributes(attributes...))...)) //nolint:spancheck // The caller ends it, with what is returned.
}

// Start starts a span below that of ctx; none if ctx has none.
func (t *Tracer) Start(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, End) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, ignoreError
	}
	return beginLogging(t.tracer.Start(ctx, name, trace.WithAttributes(attributes...))) //nolint:spancheck // The caller ends it, with what is returned.
}

// Record makes a span of something that another process has done meanwhile.
func (t *Tracer) Record(ctx context.Context, name string, from From, began, ended time.Time, attributes ...attribute.KeyValue) {
	if t == nil {
		return
	}
	ctx, options := t.placeSpan(ctx, from)
	_, span := t.tracer.Start(ctx, name, append(options, trace.WithTimestamp(began), trace.WithAttributes(attributes...))...)
	span.End(trace.WithTimestamp(ended))
}

// On reports whether spans are made.
func (t *Tracer) On() bool { return t != nil }

// Settle remembers that the order of object was carried out, with the traceparent that it has now.
func (t *Tracer) Settle(object metav1.Object) {
	if traceparent := Of(object); t != nil && traceparent != "" {
		t.settled.Add(object.GetUID(), traceparent)
	}
}

// Settled reports whether object's traceparent is one that Settle has seen: a later order does not belong to that trace.
func (t *Tracer) Settled(object metav1.Object) bool {
	if t == nil {
		return false
	}
	traceparent, found := t.settled.Get(object.GetUID())
	return found && traceparent == Of(object)
}

func (t *Tracer) placeSpan(ctx context.Context, from From) (context.Context, []trace.SpanStartOption) {
	parent := parseTraceparent(from.Traceparent)
	switch {
	case !parent.IsValid():
		return ctx, []trace.SpanStartOption{trace.WithNewRoot()}
	case from.Repeated:
		return ctx, []trace.SpanStartOption{trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: parent})}
	}
	return trace.ContextWithRemoteSpanContext(ctx, parent), nil
}

// beginLogging gives the context's logger the ids of a span that is sent.
func beginLogging(ctx context.Context, span trace.Span) (context.Context, End) {
	if id := span.SpanContext(); id.IsSampled() {
		log := klog.FromContext(ctx).WithValues("trace_id", id.TraceID().String(), "span_id", id.SpanID().String())
		ctx = klog.NewContext(ctx, log)
	}
	return ctx, func(err error) {
		if _, settled := outcome.Retry(err); settled && len(outcome.Failures(err)) == 0 {
			span.AddEvent("waiting", trace.WithAttributes(attribute.String("why", err.Error())))
		} else if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// traceparentKey is that of the W3C Trace Context. Its tracestate is not carried: nothing here writes one.
const traceparentKey = "traceparent"

// longestTraceparent bounds what is parsed. Version 00 has 55 characters; a later one may have more.
const longestTraceparent = 256

// parseTraceparent reads a traceparent. It returns an invalid SpanContext for what is none.
func parseTraceparent(text string) trace.SpanContext {
	if text == "" || len(text) > longestTraceparent {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{traceparentKey: text}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Traceparent is that of the span of ctx; empty without one.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparentKey]
}

// Of is the traceparent of object; empty without one.
func Of(object metav1.Object) string { return object.GetAnnotations()[v1alpha1.TraceparentAnnotation] }

// Stamp writes the traceparent of ctx on object, which is about to be written anyway. Without one it takes that of an earlier
// write away.
func Stamp(ctx context.Context, object metav1.Object) {
	traceparent, annotations := Traceparent(ctx), object.GetAnnotations()
	switch {
	case traceparent == "":
		delete(annotations, v1alpha1.TraceparentAnnotation)
		return
	case annotations == nil:
		annotations = map[string]string{}
	}
	annotations[v1alpha1.TraceparentAnnotation] = traceparent
	object.SetAnnotations(annotations)
}

// Object is the attributes that name an object of kind.
func Object(kind string, object metav1.Object) []attribute.KeyValue {
	attributes := []attribute.KeyValue{attribute.String("hollowfleet."+kind, object.GetName())}
	if cluster := object.GetNamespace(); cluster != "" {
		attributes = append(attributes, attribute.String("hollowfleet.cluster", cluster))
	}
	return attributes
}
