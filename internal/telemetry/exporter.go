package telemetry

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Service is who sends. The OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES variables override and complete it.
type Service struct {
	// Name is that of the program, such as hollowfleet-hub; Version is its version.
	Name, Version string
	// Instance tells the processes of one program apart.
	Instance string
	// Cluster is the workload cluster that the process works for; empty for a hub.
	Cluster string
}

// Here is this process, which runs the program name.
func Here(name, version string) Service {
	host, _ := os.Hostname() // Without one, the process tells the instance.
	return Service{Name: name, Version: version, Instance: fmt.Sprintf("%s/%d", host, os.Getpid())}
}

// Exporter sends spans and metrics until it is shut down.
type Exporter struct {
	// Tracers makes spans. It is a noop provider when none are sent.
	Tracers trace.TracerProvider
	closers []func(context.Context) error
}

// New returns an Exporter. It connects when there is something to send: a receiver that cannot be reached is no error, and
// is logged to log. metrics are what is sent of them.
func New(ctx context.Context, o Options, service Service, metrics prometheus.Gatherer, log logr.Logger) (*Exporter, error) {
	e := &Exporter{Tracers: noop.NewTracerProvider()}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.SamplingRatio == 0 && o.MetricsInterval == 0 {
		return e, nil
	}
	described, err := describeService(ctx, service)
	if err != nil {
		return nil, fmt.Errorf("describing the process for traces and metrics: %w", err)
	}
	if o.SamplingRatio > 0 {
		if err := e.addTraces(ctx, o, described, log); err != nil {
			return nil, err
		}
	}
	if o.MetricsInterval > 0 {
		if err := e.addMetrics(ctx, o, described, metrics, log); err != nil {
			e.Close(ctx, log)
			return nil, err
		}
	}
	return e, nil
}

// closeTimeout bounds the time in which what is left is sent.
const closeTimeout = 3 * time.Second

// Close sends what is left, if the receiver takes it soon, also when ctx is done. Callers need not: what is not sent is lost.
func (e *Exporter) Close(ctx context.Context, log logr.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	for _, closer := range e.closers {
		if err := closer(ctx); err != nil {
			log.Info("Closing the connection to the OTLP receiver failed", "error", err.Error())
		}
	}
}

func describeService(ctx context.Context, service Service) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{
		attribute.String("service.name", service.Name), attribute.String("service.version", service.Version),
		attribute.String("service.instance.id", service.Instance),
	}
	if service.Cluster != "" {
		attributes = append(attributes, attribute.String("k8s.cluster.name", service.Cluster))
	}
	return resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attributes...), resource.WithFromEnv())
}

func (e *Exporter) addTraces(ctx context.Context, o Options, described *resource.Resource, log logr.Logger) error {
	var options []otlptracegrpc.Option
	url, err := o.endpointURL()
	if err != nil {
		return err
	}
	if url != "" {
		options = append(options, otlptracegrpc.WithEndpointURL(url))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return fmt.Errorf("making the exporter of spans: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(described),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.SamplingRatio))),
		sdktrace.WithBatcher(&spanExporter{exporter, deliveryLog{log: log, what: "spans"}}),
	)
	e.Tracers, e.closers = provider, append(e.closers, provider.Shutdown)
	return nil
}

func (e *Exporter) addMetrics(ctx context.Context, o Options, described *resource.Resource, metrics prometheus.Gatherer, log logr.Logger) error {
	var options []otlpmetricgrpc.Option
	url, err := o.endpointURL()
	if err != nil {
		return err
	}
	if url != "" {
		options = append(options, otlpmetricgrpc.WithEndpointURL(url))
	}
	exporter, err := otlpmetricgrpc.New(ctx, options...)
	if err != nil {
		return fmt.Errorf("making the exporter of metrics: %w", err)
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(described), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(
		&metricExporter{exporter, deliveryLog{log: log, what: "metrics"}},
		sdkmetric.WithInterval(o.MetricsInterval), sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(metrics))),
	)))
	e.closers = append(e.closers, provider.Shutdown)
	return nil
}

// deliveryLog logs when sending starts to fail, and when it succeeds again. The SDK would give each error to a global handler.
type deliveryLog struct {
	log    logr.Logger
	what   string
	failed atomic.Bool
}

func (o *deliveryLog) noteError(err error) {
	switch failed := err != nil; {
	case failed == o.failed.Swap(failed):
	case failed:
		o.log.Error(err, "Sending to the OTLP receiver fails; what is not sent is dropped", "what", o.what)
	default:
		o.log.Info("Sending to the OTLP receiver again", "what", o.what)
	}
}

type spanExporter struct {
	sdktrace.SpanExporter
	deliveryLog
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.noteError(e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

type metricExporter struct {
	sdkmetric.Exporter
	deliveryLog
}

// Export implements sdkmetric.Exporter.
func (e *metricExporter) Export(ctx context.Context, metrics *metricdata.ResourceMetrics) error {
	e.noteError(e.Exporter.Export(ctx, metrics))
	return nil
}
