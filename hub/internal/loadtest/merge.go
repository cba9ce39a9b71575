package loadtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

const (
	// mostKeys bounds the memory of merged histograms, of which each takes 190 KB, whatever agents report.
	mostKeys = 128
	// mostResults is how many of them the status has.
	mostResults = 64
)

// Merged is what the runs of a test have measured, together. It takes one run after the other, because all their histograms
// together may be large.
type Merged struct {
	Measurements loadtest.Measurements
	// Unreadable says of clusters why their measurements cannot be merged.
	Unreadable map[string]string
	worst      map[loadtest.Key]worst
}

type worst struct {
	cluster string
	p99     metav1.Duration
}

// NewMerged returns one without any measurement.
func NewMerged() *Merged {
	return &Merged{Measurements: loadtest.Measurements{}, Unreadable: map[string]string{}, worst: map[loadtest.Key]worst{}}
}

// Add adds what a run has measured.
func (m *Merged) Add(run *v1alpha1.LoadTestRun) {
	decoded, err := loadtest.Decode(run.Status.Histograms)
	if err != nil {
		m.Unreadable[run.Namespace] = fmt.Sprintf("what it measured cannot be read: %v", err)
		return
	}
	for i := range run.Status.Histograms {
		latency := &run.Status.Histograms[i].LoadLatency
		key, p99 := loadtest.Key{Measurement: latency.Measurement, Verb: latency.Verb, Resource: latency.Resource}, latency.P99
		if _, known := m.worst[key]; !known && len(m.worst) == mostKeys || decoded[key] == nil {
			continue
		}
		if before, known := m.worst[key]; !known || p99.Duration > before.p99.Duration {
			m.worst[key] = worst{run.Namespace, p99}
		}
		m.Measurements.Merge(loadtest.Measurements{key: decoded[key]})
		delete(decoded, key) // One that is listed twice was decoded as one.
	}
}

// Results are summaries of what was measured most often, but those of pods, Nodes and Deployments in any case, by what they are
// about.
func (m *Merged) Results() []v1alpha1.LoadTestResult {
	keys := slices.Collect(maps.Keys(m.Measurements))
	slices.SortFunc(keys, func(a, b loadtest.Key) int {
		return cmp.Or(cmp.Compare(min(len(a.Verb), 1), min(len(b.Verb), 1)),
			cmp.Compare(m.Measurements[b].TotalCount(), m.Measurements[a].TotalCount()), cmp.Compare(a.String(), b.String()))
	})
	var results []v1alpha1.LoadTestResult
	for _, key := range keys[:min(len(keys), mostResults)] {
		results = append(results, v1alpha1.LoadTestResult{
			LoadLatency: loadtest.Summarize(key, m.Measurements[key]), WorstCluster: m.worst[key].cluster, WorstP99: m.worst[key].p99,
		})
	}
	return results
}
