// Package otlp is an OpenTelemetry receiver for tests: the gRPC services that a collector has, on loopback, which keep what
// they get.
package otlp

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	spansv1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Span is one that was received.
type Span struct {
	// Service and Cluster are those of the process that sent it.
	Service, Cluster string
	Name             string
	// Trace, ID and Parent are hexadecimal; Parent is empty for a root.
	Trace, ID, Parent string
	// Links are the traces that it is linked to.
	Links      []string
	Attributes map[string]string
	Start, End time.Time
	Failed     bool
}

// Receiver is a server with the services of a collector.
type Receiver struct {
	// Address is host:port.
	Address string
	server  *grpc.Server

	mu      sync.Mutex
	spans   []Span
	metrics map[string]map[string]bool
}

// Start starts a Receiver on address, such as 127.0.0.1:0. Without options it serves without TLS. The caller stops it.
func Start(address string, options ...grpc.ServerOption) (*Receiver, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("opening the receiver's port: %w", err)
	}
	r := &Receiver{Address: listener.Addr().String(), server: grpc.NewServer(options...), metrics: map[string]map[string]bool{}}
	tracev1.RegisterTraceServiceServer(r.server, &traces{receiver: r})
	metricsv1.RegisterMetricsServiceServer(r.server, &metrics{receiver: r})
	go func() { _ = r.server.Serve(listener) }() // It returns when it is stopped.
	return r, nil
}

// Stop ends the Receiver, which keeps what it has.
func (r *Receiver) Stop() { r.server.Stop() }

// Spans are those received so far that match, in the order in which they started.
func (r *Receiver) Spans(match func(Span) bool) []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Span
	for _, span := range r.spans {
		if match(span) {
			found = append(found, span)
		}
	}
	slices.SortStableFunc(found, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return found
}

// Trace are the spans of the trace of that ID.
func (r *Receiver) Trace(id string) []Span {
	return r.Spans(func(s Span) bool { return s.Trace == id })
}

// HasMetric reports whether a service has sent a metric of that name.
func (r *Receiver) HasMetric(service, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.metrics[service][name]
}

type traces struct {
	tracev1.UnimplementedTraceServiceServer
	receiver *Receiver
}

// Export implements the trace service.
func (t *traces) Export(_ context.Context, request *tracev1.ExportTraceServiceRequest) (*tracev1.ExportTraceServiceResponse, error) {
	t.receiver.mu.Lock()
	defer t.receiver.mu.Unlock()
	for _, from := range request.ResourceSpans {
		resource := texts(from.Resource.Attributes)
		for _, scope := range from.ScopeSpans {
			for _, span := range scope.Spans {
				t.receiver.spans = append(t.receiver.spans, read(resource, span))
			}
		}
	}
	return &tracev1.ExportTraceServiceResponse{}, nil
}

func read(resource map[string]string, span *spansv1.Span) Span {
	s := Span{
		Service: resource["service.name"], Cluster: resource["k8s.cluster.name"], Name: span.Name,
		Trace: hex.EncodeToString(span.TraceId), ID: hex.EncodeToString(span.SpanId), Parent: hex.EncodeToString(span.ParentSpanId),
		Attributes: texts(span.Attributes), Failed: span.Status.GetCode() == spansv1.Status_STATUS_CODE_ERROR,
		Start: time.Unix(0, int64(span.StartTimeUnixNano)), End: time.Unix(0, int64(span.EndTimeUnixNano)),
	}
	for _, link := range span.Links {
		s.Links = append(s.Links, hex.EncodeToString(link.TraceId))
	}
	return s
}

func texts(attributes []*commonv1.KeyValue) map[string]string {
	all := map[string]string{}
	for _, attribute := range attributes {
		if number, ok := attribute.Value.Value.(*commonv1.AnyValue_IntValue); ok {
			all[attribute.Key] = fmt.Sprint(number.IntValue)
			continue
		}
		all[attribute.Key] = attribute.Value.GetStringValue()
	}
	return all
}

type metrics struct {
	metricsv1.UnimplementedMetricsServiceServer
	receiver *Receiver
}

// Export implements the metrics service.
func (m *metrics) Export(_ context.Context, request *metricsv1.ExportMetricsServiceRequest) (*metricsv1.ExportMetricsServiceResponse, error) {
	m.receiver.mu.Lock()
	defer m.receiver.mu.Unlock()
	for _, from := range request.ResourceMetrics {
		service := texts(from.Resource.Attributes)["service.name"]
		if m.receiver.metrics[service] == nil {
			m.receiver.metrics[service] = map[string]bool{}
		}
		for _, scope := range from.ScopeMetrics {
			for _, metric := range scope.Metrics {
				m.receiver.metrics[service][metric.Name] = true
			}
		}
	}
	return &metricsv1.ExportMetricsServiceResponse{}, nil
}
