// Package telemetry sends traces and metrics of hub and agent to an OpenTelemetry collector, and carries one trace from the
// object that a user has changed to the Node that comes of it: each object on the way has the trace that it belongs to in
// v1alpha1.TraceparentAnnotation. docs/design/tracing.md says which spans there are, and why.
//
// Nothing here is global: a process that runs several hubs or agents, as tests do, has a TracerProvider for each.
package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Options say what is sent, and where to. The zero value sends nothing.
type Options struct {
	// Endpoint is the OTLP/gRPC receiver, as a URL. With http there is no TLS; with https, or without a scheme, there is.
	// Default: $OTEL_EXPORTER_OTLP_ENDPOINT, else localhost:4317. The exporter also reads the other OTEL_EXPORTER_OTLP_*
	// variables, such as _CERTIFICATE and _HEADERS.
	Endpoint string
	// SamplingRatio is the part of the traces that start in this process and are sent, from 0 to 1. Those that started elsewhere
	// are sent if they were sampled there. Default 0: no spans are made at all.
	SamplingRatio float64
	// MetricsInterval is how often the metrics are sent. Default 0: never.
	MetricsInterval time.Duration
}

// AddFlags adds a flag for each option.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Endpoint, "otlp-endpoint", o.Endpoint, "URL of an OTLP/gRPC receiver such as https://collector:4317; http:// for one without TLS (default $OTEL_EXPORTER_OTLP_ENDPOINT, else localhost:4317; the other OTEL_EXPORTER_OTLP_* variables are read too)")
	flags.Float64Var(&o.SamplingRatio, "trace-sampling-ratio", o.SamplingRatio, "part of the traces to send, 0 to 1; a trace that started elsewhere is sent if it was sampled there; 0 makes no spans")
	flags.DurationVar(&o.MetricsInterval, "otlp-metrics-interval", o.MetricsInterval, "how often to send the metrics to the receiver too, 1s or more; 0 for never")
}

// Validate reports all that is wrong with o.
func (o *Options) Validate() error {
	var problems []error
	if !(o.SamplingRatio >= 0 && o.SamplingRatio <= 1) {
		problems = append(problems, fmt.Errorf("--trace-sampling-ratio: want 0 to 1, got %g", o.SamplingRatio))
	}
	if o.MetricsInterval != 0 && o.MetricsInterval < time.Second {
		problems = append(problems, fmt.Errorf("--otlp-metrics-interval: want 1s or more, or 0, got %s", o.MetricsInterval))
	}
	if _, err := o.endpointURL(); err != nil {
		problems = append(problems, fmt.Errorf("--otlp-endpoint: want a URL such as https://collector:4317, got %q: %w", o.Endpoint, err))
	}
	return errors.Join(problems...)
}

// endpointURL is the endpoint with its scheme; empty without an endpoint.
func (o *Options) endpointURL() (string, error) {
	if o.Endpoint == "" {
		return "", nil
	}
	text := o.Endpoint
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.Unwrap(err)
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return "", errors.New("the scheme is neither http nor https")
	case parsed.Host == "":
		return "", errors.New("there is no host")
	case strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.User != nil:
		return "", errors.New("gRPC takes a host and a port only")
	}
	return text, nil
}
