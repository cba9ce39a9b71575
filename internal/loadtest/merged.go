package loadtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// mostKeys bounds the memory of merged histograms, of which each takes 190 KB, whatever agents report.
	mostKeys = 192
	// MostResults is how many of them the status has.
	MostResults = 128
	// MostNamed is how many clusters a threshold names that do not meet it.
	MostNamed = 20
	// mostUnready is how many reasons of unready pods the status has, and mostReasons how many are told apart before.
	mostUnready, mostReasons = 20, 200
)

// Merged is what the runs of a test have measured, together. It takes one run after the other, because all their histograms
// together may be large.
type Merged struct {
	// Unreadable says of clusters why their measurements cannot be merged.
	Unreadable map[string]string
	// valid is what was measured in the runs that are not Invalid, and invalid what was in those that are.
	valid, invalid part
	worst          map[Key]worst
	missed         map[string][]v1alpha1.LoadThresholdResult
	unready        map[string]*v1alpha1.LoadUnready
}

// part is what some of the runs have measured.
type part struct {
	runs             int
	measurements     Measurements
	requests, failed int64
	// own is what the runs say of each threshold: how many measurements they have in all, the longest of their values, and whether it
	// is met in each.
	own []v1alpha1.LoadThresholdResult
}

type worst struct {
	cluster string
	p99     metav1.Duration
}

// NewMerged returns one without any measurement.
func NewMerged() *Merged {
	return &Merged{
		Unreadable: map[string]string{}, valid: part{measurements: Measurements{}}, invalid: part{measurements: Measurements{}},
		worst: map[Key]worst{}, missed: map[string][]v1alpha1.LoadThresholdResult{}, unready: map[string]*v1alpha1.LoadUnready{},
	}
}

// Add adds what a run has measured.
func (m *Merged) Add(run *v1alpha1.LoadTestRun) {
	m.addUnready(run.Status.Unready)
	decoded, err := Decode(run.Status.Histograms)
	if err != nil {
		m.Unreadable[run.Namespace] = fmt.Sprintf("what it measured cannot be read: %v", err)
		return
	}
	to, own := &m.valid, ownResults(run, decoded)
	if run.Status.Verdict == v1alpha1.LoadInvalid {
		to = &m.invalid
	} else if slices.ContainsFunc(own, func(r v1alpha1.LoadThresholdResult) bool { return !r.Met }) {
		m.missed[run.Namespace] = own
	}
	to.addOwn(own)
	to.runs++
	to.requests, to.failed = to.requests+run.Status.Progress.Requests, to.failed+run.Status.Progress.Failed
	for i := range run.Status.Histograms {
		latency := &run.Status.Histograms[i].LoadLatency
		key := KeyOf(latency)
		if _, known := m.worst[key]; !known && len(m.worst) == mostKeys {
			continue
		}
		taken := decoded.Take(key) // One that is listed twice was decoded as one.
		if len(taken) == 0 {
			continue
		}
		if before, known := m.worst[key]; !known || latency.P99.Duration > before.p99.Duration {
			m.worst[key] = worst{run.Namespace, latency.P99}
		}
		to.measurements.Merge(taken)
	}
}

// ownResults are what a cluster's thresholds are for itself. What its agent says rests on all that was measured. Where it says nothing,
// as that of a run that was lost, its histograms count.
func ownResults(run *v1alpha1.LoadTestRun, decoded Measurements) []v1alpha1.LoadThresholdResult {
	if results := run.Status.Thresholds; len(results) == len(run.Spec.Thresholds) {
		return slices.Clone(results)
	}
	return Evaluate(run.Spec.Thresholds, decoded, run.Status.Progress.Requests, run.Status.Progress.Failed)
}

// addOwn adds what a run says of its thresholds.
func (p *part) addOwn(results []v1alpha1.LoadThresholdResult) {
	for i, result := range results {
		if i == len(p.own) {
			p.own = append(p.own, v1alpha1.LoadThresholdResult{Met: true})
		}
		own := &p.own[i]
		own.Count, own.Unfinished, own.Met = own.Count+result.Count, own.Unfinished+result.Unfinished, own.Met && result.Met
		if own.Measured == nil || result.Measured != nil && result.Measured.Duration > own.Measured.Duration {
			own.Measured = result.Measured
		}
	}
}

// completeResult corrects the result of a threshold where histograms have fewer measurements than the runs made: what does not fit into
// a status, or into the memory here, is left out. A quantile of all together is at most the longest of the runs', so that one is shown, and
// the threshold is met only if each run meets it.
func (p *part) completeResult(i int, result *v1alpha1.LoadThresholdResult) {
	if i < len(p.own) && p.own[i].Count > result.Count {
		own := &p.own[i]
		result.Count, result.Unfinished, result.Measured, result.Met = own.Count, own.Unfinished, own.Measured, own.Met
	}
}

// addUnready counts pods that were never Ready.
func (m *Merged) addUnready(list []v1alpha1.LoadUnready) {
	for _, one := range list {
		if known := m.unready[one.Reason]; known != nil {
			known.Count += one.Count
		} else if len(m.unready) < mostReasons {
			m.unready[one.Reason] = &one
		}
	}
}

// Unready are why pods were never Ready, the most frequent reason first.
func (m *Merged) Unready() []v1alpha1.LoadUnready {
	var list []v1alpha1.LoadUnready
	for _, one := range m.unready {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b v1alpha1.LoadUnready) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return list[:min(len(list), mostUnready)]
}

// Evaluate says which thresholds are met by all runs together that are not Invalid, or by all if there is none, and in which of them
// they are not met. Missed is in how many clusters one is not that holds in each.
func (m *Merged) Evaluate(thresholds []v1alpha1.LoadThreshold) (results []v1alpha1.LoadThresholdResult, missed int32) {
	from := &m.valid
	if from.runs == 0 {
		from = &m.invalid
	}
	results = Evaluate(thresholds, from.measurements, from.requests, from.failed)
	for i := range results {
		from.completeResult(i, &results[i])
	}
	for _, cluster := range slices.Sorted(maps.Keys(m.missed)) {
		counts := false
		for i := range results {
			// A threshold of a run is the test's of the same place.
			if own := m.missed[cluster]; i >= len(own) || own[i].Met {
				continue
			}
			counts = counts || results[i].Scope != v1alpha1.LoadScopeFleet
			results[i].MissedClusters++
			if len(results[i].MissedIn) < MostNamed {
				results[i].MissedIn = append(results[i].MissedIn, cluster)
			}
		}
		if counts {
			missed++
		}
	}
	return results, missed
}

// Results are summaries of what was measured most often, but those of pods, Nodes and Deployments in any case, by what they are
// about.
func (m *Merged) Results() []v1alpha1.LoadTestResult {
	var results []v1alpha1.LoadTestResult
	for key := range m.worst {
		// One after the other: all of them together would need twice the memory.
		both := Measurements{}
		for _, from := range []part{m.valid, m.invalid} {
			both.Merge(from.measurements.Only(key))
		}
		results = append(results, v1alpha1.LoadTestResult{LoadLatency: both.Summarize(key), WorstCluster: m.worst[key].cluster, WorstP99: m.worst[key].p99})
	}
	slices.SortFunc(results, func(a, b v1alpha1.LoadTestResult) int {
		first, second := KeyOf(&a.LoadLatency), KeyOf(&b.LoadLatency)
		return cmp.Or(cmp.Compare(first.Rank(), second.Rank()), cmp.Compare(b.Count, a.Count), cmp.Compare(first.String(), second.String()))
	})
	return results[:min(len(results), MostResults)]
}
