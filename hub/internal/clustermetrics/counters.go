// Package clustermetrics has the counters that a hub keeps for each cluster. They are 0 from the moment at which the hub has
// seen the cluster, so that the first increase is one, and end with the cluster.
package clustermetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const clusterLabel = "cluster"

// Counters are those of a registry.
type Counters struct {
	mu  sync.Mutex
	all []*prometheus.CounterVec
}

var counters = &Counters{}

// Add registers a counter with the one label cluster.
func (c *Counters) Add(registerer prometheus.Registerer, name, help string) *prometheus.CounterVec {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{clusterLabel})
	registerer.MustRegister(counter)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, counter)
	return counter
}

// Preset shows each counter of a cluster, with 0 unless it has counted.
func (c *Counters) Preset(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, counter := range c.all {
		counter.WithLabelValues(cluster)
	}
}

// Forget removes the counters of a cluster.
func (c *Counters) Forget(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, counter := range c.all {
		counter.DeleteLabelValues(cluster)
	}
}

// NewCounter registers a counter of the hub. It is for variables of packages.
func NewCounter(name, help string) *prometheus.CounterVec {
	return counters.Add(metrics.Registry, name, help)
}

// Preset shows each counter of the hub for a cluster, with 0 unless it has counted.
func Preset(cluster string) { counters.Preset(cluster) }

// Forget removes the counters of the hub for a cluster that is gone.
func Forget(cluster string) { counters.Forget(cluster) }
