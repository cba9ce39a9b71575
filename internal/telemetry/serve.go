package telemetry

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/hollowfleet/hollowfleet/internal/serving"
)

// The addresses that hub and agent serve on unless their flags say another.
const (
	DefaultHealthAddress  = "127.0.0.1:8081"
	DefaultMetricsAddress = "127.0.0.1:8080"
)

// NoAddress is the address of what is not served, as an empty one is.
const NoAddress = "0"

// ServeOptions say what operators can look at. The zero value serves and sends nothing.
type ServeOptions struct {
	// HealthAddress, MetricsAddress and PprofAddress are host:port; an empty one, or NoAddress, means none.
	HealthAddress, MetricsAddress, PprofAddress string
	// Serving says with which certificate health and metrics are served. Default: without TLS.
	Serving serving.Options
	// Tracing says which traces and metrics are sent, and where to. Default: none.
	Tracing Options
}

// AddFlags adds a flag for each option. Health names the paths that HealthAddress serves.
func (o *ServeOptions) AddFlags(flags *pflag.FlagSet, health string) {
	flags.StringVar(&o.HealthAddress, "health-address", DefaultHealthAddress, "address of "+health+", which are served without authentication; 0 for none, :8081 for the probes of a kubelet")
	flags.StringVar(&o.MetricsAddress, "metrics-address", DefaultMetricsAddress, "address of /metrics, which is served without authentication; 0 for none, :8080 for all interfaces")
	flags.StringVar(&o.PprofAddress, "pprof-address", NoAddress, "address of /debug/pprof/; 0 for none")
	o.Serving.AddFlags(flags)
	o.Tracing.AddFlags(flags)
}

// Validate reports all that is wrong with o.
func (o *ServeOptions) Validate() error {
	return errors.Join(o.Serving.Validate(), o.Tracing.Validate())
}
