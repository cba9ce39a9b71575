package telemetry

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterBuildInfo registers the metric that says which program this is. One that a registry has already stays: tests run several
// hubs in one process.
func RegisterBuildInfo(registerer prometheus.Registerer, component, version string) error {
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "hollowfleet_build_info",
		Help:        "Always 1, with the program (component), its version, and that of Go.",
		ConstLabels: prometheus.Labels{"component": component, "version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	if err := registerer.Register(info); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		return fmt.Errorf("registering the metric of the build: %w", err)
	}
	return nil
}
