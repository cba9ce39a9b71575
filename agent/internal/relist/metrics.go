package relist

import "github.com/prometheus/client_golang/prometheus"

// Metrics of a Relister.
type Metrics struct {
	duration prometheus.Histogram
	behind   prometheus.Counter
	rebuilds prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "hollowfleet_relist_duration_seconds",
			Help:    "Time from the end of the last cause of a freeze until the caches held everything that was listed.",
			Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300},
		}),
		behind: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hollowfleet_relist_outdated_objects_total",
			Help: "Objects that the caches had missed, or not let go, when the world was listed after a freeze.",
		}),
		rebuilds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hollowfleet_relist_cache_rebuilds_total",
			Help: "Times that the caches were made anew because an API server had gone back to an older state.",
		}),
	}
	registerer.MustRegister(m.duration, m.behind, m.rebuilds)
	return m
}
