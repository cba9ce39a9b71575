package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

const (
	// page is how many runs are read at once: each may have half a megabyte.
	page = 20
	// mostFaults bounds how many faults of Nodes are kept.
	mostFaults = 500
)

// report is all that there is to say about a test. It is what -o json prints and compare reads: fields may be added to it, and keep
// their meaning.
type report struct {
	Name      string                         `json:"name"`
	Phase     v1alpha1.LoadTestPhase         `json:"phase"`
	Verdict   v1alpha1.LoadVerdict           `json:"verdict,omitempty"`
	Message   string                         `json:"message,omitempty"`
	StartTime *metav1.Time                   `json:"startTime,omitempty"`
	EndTime   *metav1.Time                   `json:"endTime,omitempty"`
	Clusters  int32                          `json:"clusters"`
	Completed int32                          `json:"completed"`
	Failed    int32                          `json:"failed"`
	Invalid   int32                          `json:"invalid"`
	Partial   bool                           `json:"partial"`
	Progress  v1alpha1.LoadProgress          `json:"progress"`
	Threshold []v1alpha1.LoadThresholdResult `json:"thresholds,omitempty"`
	Results   []v1alpha1.LoadTestResult      `json:"results,omitempty"`
	Failures  []v1alpha1.ClusterFailure      `json:"failures,omitempty"`
	Runs      []clusterReport                `json:"runs,omitempty"`
	Faults    []fault                        `json:"faults,omitempty"`
	// Missed is how many clusters do not meet a threshold of scope EachCluster, and Unready why pods were never Ready.
	Missed  int32                  `json:"missed,omitempty"`
	Unready []v1alpha1.LoadUnready `json:"unready,omitempty"`
	// Preset and Load are what was asked for, and Disruption which Nodes were to fail.
	Preset     *v1alpha1.LoadPreset `json:"preset,omitempty"`
	Load       *v1alpha1.Load       `json:"load,omitempty"`
	Disruption *v1alpha1.Disruption `json:"disruption,omitempty"`
	// FaultsOmitted is how many more faults there were.
	FaultsOmitted int `json:"faultsOmitted,omitempty"`
	// PerfData has the results in the form of clusterloader2.
	PerfData []perfData `json:"perfData,omitempty"`
}

// clusterReport is what there is to say about the run of a cluster.
type clusterReport struct {
	Cluster   string                         `json:"cluster"`
	Phase     v1alpha1.LoadTestRunPhase      `json:"phase"`
	Verdict   v1alpha1.LoadVerdict           `json:"verdict,omitempty"`
	Failure   string                         `json:"failure,omitempty"`
	Invalid   []string                       `json:"invalid,omitempty"`
	StartTime *metav1.Time                   `json:"startTime,omitempty"`
	EndTime   *metav1.Time                   `json:"endTime,omitempty"`
	Progress  v1alpha1.LoadProgress          `json:"progress"`
	Threshold []v1alpha1.LoadThresholdResult `json:"thresholds,omitempty"`
	Results   []v1alpha1.LoadLatency         `json:"results,omitempty"`
	Series    []v1alpha1.LoadSeries          `json:"series,omitempty"`
	Errors    []v1alpha1.LoadError           `json:"errors,omitempty"`
	Simulator *v1alpha1.LoadSimulator        `json:"simulator,omitempty"`
	// TargetQPS is the highest rate that a step asks for, and AchievedQPS the mean one of the whole run, pauses and waits included.
	TargetQPS   int32   `json:"targetQPS,omitempty"`
	AchievedQPS float64 `json:"achievedQPS,omitempty"`
	// Shortfalls say what of the load was not done.
	Shortfalls  []string                  `json:"shortfalls,omitempty"`
	Unready     []v1alpha1.LoadUnready    `json:"unready,omitempty"`
	Environment *v1alpha1.LoadEnvironment `json:"environment,omitempty"`
	// Notes say what could not be measured.
	Notes []string `json:"notes,omitempty"`
}

// fault is one Node that a disruption of the test let fail.
type fault struct {
	Cluster   string       `json:"cluster"`
	Node      string       `json:"node"`
	Injected  metav1.Time  `json:"injected"`
	Recovered *metav1.Time `json:"recovered,omitempty"`
}

// gatherReport reads a test and its runs. What runs of a test that continues have measured so far is merged here; that of one which has
// ended the hub has merged.
func gatherReport(ctx context.Context, c client.Client, name string) (*report, error) {
	test, err := getTest(ctx, c, name)
	if err != nil {
		return nil, err
	}
	r := reportOf(test)
	merged, token := loadtest.NewMerged(), ""
	for {
		runs := &v1alpha1.LoadTestRunList{}
		if err := c.List(ctx, runs, client.MatchingLabels{v1alpha1.LoadTestNameLabel: name}, client.Limit(page), client.Continue(token)); err != nil {
			return nil, fmt.Errorf("reading the runs of the load test: %w", err)
		}
		for i := range runs.Items {
			run := &runs.Items[i]
			if owner := metav1.GetControllerOf(run); owner == nil || owner.UID != test.UID || run.DecodeError != "" {
				continue
			}
			if test.Status.EndTime == nil {
				merged.Add(run)
			}
			r.Runs = append(r.Runs, clusterOf(run, r.Failures))
		}
		if token = runs.Continue; token == "" {
			break
		}
	}
	if test.Status.EndTime == nil {
		r.Results = merged.Results()
		r.Partial = true
	}
	slices.SortFunc(r.Runs, func(a, b clusterReport) int { return cmp.Compare(a.Cluster, b.Cluster) })
	if err := r.addFaults(ctx, c, name); err != nil {
		return nil, err
	}
	r.PerfData = perfDataOf(r)
	return r, nil
}

func reportOf(test *v1alpha1.LoadTest) *report {
	s := &test.Status
	return &report{
		Name: test.Name, Phase: s.Phase, Verdict: s.Verdict, Message: s.Message, StartTime: s.StartTime, EndTime: s.EndTime, Clusters: s.Clusters, Completed: s.Completed,
		Failed: s.Failed, Invalid: s.Invalid, Partial: s.Partial, Progress: s.Progress, Threshold: s.Thresholds, Results: s.Results, Failures: s.Failures,
		Missed: s.Missed, Unready: s.Unready, Preset: test.Spec.Preset, Load: test.Spec.Load, Disruption: test.Spec.Disruption,
	}
}

// clusterOf is what there is to say about a run. Of one that was lost the hub knows more than the run does.
func clusterOf(run *v1alpha1.LoadTestRun, failures []v1alpha1.ClusterFailure) clusterReport {
	s := &run.Status
	one := clusterReport{
		Cluster: run.Namespace, Phase: s.Phase, Verdict: s.Verdict, Failure: s.Failure, Invalid: s.Invalid, StartTime: s.StartTime, EndTime: s.EndTime,
		Progress: s.Progress, Threshold: s.Thresholds, Series: s.Series, Errors: s.Errors, Simulator: s.Simulator, Notes: s.Notes,
		Shortfalls: s.Shortfalls, Unready: s.Unready, Environment: s.Environment, TargetQPS: targetQPS(&run.Spec.Load), AchievedQPS: achievedQPS(s),
	}
	for _, failure := range failures {
		if failure.Cluster == run.Namespace {
			one.Failure = cmp.Or(one.Failure, failure.Message)
		}
	}
	for i := range s.Histograms {
		one.Results = append(one.Results, s.Histograms[i].LoadLatency)
	}
	return one
}

// addFaults adds the Nodes that a disruption of the test let fail, the first ones.
func (r *report) addFaults(ctx context.Context, c client.Client, name string) error {
	disruptions := &v1alpha1.NodeDisruptionRunList{}
	if err := c.List(ctx, disruptions, client.MatchingLabels{v1alpha1.LoadTestNameLabel: name}); err != nil {
		return fmt.Errorf("reading the disruptions of the load test: %w", err)
	}
	for i := range disruptions.Items {
		for _, node := range disruptions.Items[i].Status.Nodes {
			if node.InjectedAt != nil {
				r.Faults = append(r.Faults, fault{disruptions.Items[i].Namespace, node.Name, *node.InjectedAt, node.RecoveredAt})
			}
		}
	}
	slices.SortFunc(r.Faults, func(a, b fault) int {
		return cmp.Or(a.Injected.Compare(b.Injected.Time), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Node, b.Node))
	})
	r.FaultsOmitted = max(len(r.Faults)-mostFaults, 0)
	r.Faults = r.Faults[:len(r.Faults)-r.FaultsOmitted]
	return nil
}

// perfData is a result in the form of clusterloader2, version v1: times are milliseconds.
type perfData struct {
	Version   string            `json:"version"`
	DataItems []perfItem        `json:"dataItems"`
	Labels    map[string]string `json:"labels,omitempty"`
}

type perfItem struct {
	Data   map[string]float64 `json:"data"`
	Unit   string             `json:"unit"`
	Labels map[string]string  `json:"labels,omitempty"`
}

// metricNames are those of clusterloader2 for what it measures too.
var metricNames = map[v1alpha1.LoadMeasurement]string{v1alpha1.LoadPodScheduled: "create_to_schedule", v1alpha1.LoadPodReady: "pod_startup"}

// perfDataOf has an item for each result of all clusters together, and then of each cluster.
func perfDataOf(r *report) []perfData {
	whole := perfData{Version: "v1", Labels: map[string]string{"LoadTest": r.Name}}
	for i := range r.Results {
		whole.DataItems = append(whole.DataItems, itemOf(&r.Results[i].LoadLatency))
	}
	all := []perfData{whole}
	for _, run := range r.Runs {
		one := perfData{Version: "v1", Labels: map[string]string{"LoadTest": r.Name, "Cluster": run.Cluster}}
		for i := range run.Results {
			one.DataItems = append(one.DataItems, itemOf(&run.Results[i]))
		}
		all = append(all, one)
	}
	return slices.DeleteFunc(all, func(one perfData) bool { return len(one.DataItems) == 0 })
}

func itemOf(l *v1alpha1.LoadLatency) perfItem {
	labels := map[string]string{"Metric": cmp.Or(metricNames[l.Measurement], string(l.Measurement)), "Count": fmt.Sprint(l.Count)}
	if l.Verb != "" {
		labels["Verb"] = l.Verb
	}
	if l.Resource != "" {
		labels["Resource"] = l.Resource
	}
	return perfItem{Data: map[string]float64{"Perc50": millisecondsOf(l.P50), "Perc90": millisecondsOf(l.P90), "Perc99": millisecondsOf(l.P99)}, Unit: "ms", Labels: labels}
}

func millisecondsOf(d metav1.Duration) float64 {
	return float64(d.Duration) / float64(time.Millisecond)
}

// keyOf is what a summary is about.
func keyOf(l *v1alpha1.LoadLatency) loadtest.Key {
	return loadtest.KeyOf(l)
}
