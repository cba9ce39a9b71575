package loadtest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var start = metav1.NewTime(time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC))

func of(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func latency(measurement v1alpha1.LoadMeasurement, verb, resource string, p99 time.Duration) v1alpha1.LoadLatency {
	return v1alpha1.LoadLatency{Measurement: measurement, Verb: verb, Resource: resource, Count: 40, P50: of(p99 / 4), P90: of(p99 / 2), P99: of(p99), Max: of(p99 * 2)}
}

// sample is the report of a test in so many clusters, in one of which the simulator was the bottleneck, and one of which was lost.
func sample(clusters, points int) *report {
	end := metav1.NewTime(start.Add(2 * time.Minute))
	ready := v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady, Quantile: v1alpha1.LoadP99, Max: new(of(5 * time.Second))}
	r := &report{
		Name: "rush", Phase: v1alpha1.LoadTestPhaseCompleted, Verdict: v1alpha1.LoadMissed, Message: "1 of 2 <clusters>", StartTime: &start, EndTime: &end,
		Clusters: int32(clusters), Completed: int32(clusters) - 1, Failed: 1, Invalid: 1, Partial: true,
		Threshold: []v1alpha1.LoadThresholdResult{{LoadThreshold: ready, Met: false, Measured: new(of(6 * time.Second)), Count: 40, Unfinished: 4, MissedClusters: 1, MissedIn: []string{"c001"}}},
		Missed:    1, Unready: []v1alpha1.LoadUnready{{Reason: "Unschedulable", Count: 4, Message: "0/20 nodes are available"}},
		Failures: []v1alpha1.ClusterFailure{{Cluster: "c000", Message: "its agent was lost"}},
		Faults:   []fault{{"c001", "node-1", metav1.NewTime(start.Add(30 * time.Second)), new(metav1.NewTime(start.Add(50 * time.Second)))}, {"c001", "node-2", metav1.NewTime(start.Add(40 * time.Second)), nil}},
	}
	kinds := []v1alpha1.LoadLatency{latency(v1alpha1.LoadPodReady, "", "", 6*time.Second), latency(v1alpha1.LoadPodScheduled, "", "", time.Second)}
	kinds[0].Unfinished = 4
	for i := range 39 {
		kinds = append(kinds, latency(v1alpha1.LoadAPIRequest, "GET", fmt.Sprintf("resource%d", i), 20*time.Millisecond))
	}
	kinds = append(kinds, latency(v1alpha1.LoadAPIServerRequest, "GET", "pods", 20*time.Millisecond))
	kinds[len(kinds)-1].Bounds = true
	for _, kind := range kinds {
		r.Results = append(r.Results, v1alpha1.LoadTestResult{LoadLatency: kind, WorstCluster: "c001", WorstP99: kind.P99})
	}
	for i := range clusters {
		run := clusterReport{
			Cluster: fmt.Sprintf("c%03d", i), Phase: v1alpha1.LoadTestRunPhaseCompleted, Verdict: v1alpha1.LoadPassed, StartTime: &start, EndTime: &end, Results: kinds,
			Threshold: []v1alpha1.LoadThresholdResult{{LoadThreshold: ready, Met: i != 1, Measured: new(of(4 * time.Second)), Count: 40}},
			Errors:    []v1alpha1.LoadError{{Reason: "Timeout", Request: "GET pods", Count: int64(i), Message: "<script>alert(1)</script>"}},
			TargetQPS: 20, AchievedQPS: 12.5, Environment: &v1alpha1.LoadEnvironment{
				KubernetesVersion: "v1.37.1", Nodes: 20, KubeletVersions: []v1alpha1.LoadNodeCount{{Value: "v1.37.1", Nodes: 20}}, Profiles: []v1alpha1.LoadNodeCount{{Value: "Fast", Nodes: 20}},
				Processors: 2, Processor: "Some CPU", MemoryMiB: 24_000,
			},
			Simulator: &v1alpha1.LoadSimulator{Nodes: 20, CPUBusyPercent: 40, AgentCPUMilliseconds: 900},
		}
		switch i {
		case 0:
			run.Failure = "its agent was lost"
		case 1:
			run.Verdict, run.Invalid = v1alpha1.LoadInvalid, []string{"the processors were busy for 30 of 100"}
		}
		for _, measurement := range []v1alpha1.LoadMeasurement{v1alpha1.LoadAPIRequest, v1alpha1.LoadPodReady} {
			series := v1alpha1.LoadSeries{Measurement: measurement}
			for j := range points {
				series.Points = append(series.Points, v1alpha1.LoadPoint{Seconds: int32(j), Count: 10, P50: of(time.Second), P99: of(time.Duration(i+j+1) * 100 * time.Millisecond)})
			}
			run.Series = append(run.Series, series)
		}
		r.Runs = append(r.Runs, run)
	}
	r.PerfData = perfDataOf(r)
	return r
}

func written(t *testing.T, form format, r *report) string {
	t.Helper()
	var out bytes.Buffer
	NewWithT(t).Expect(writers[form](&out, r)).To(Succeed())
	return out.String()
}

// Claim: Reports are one file under a megabyte. Broken: all clusters are shown. Also: TestThePageOf500ClustersIsUnderAMegabyte.
func TestThePageIsOneFileThatNeedsNothingElse(t *testing.T) {
	g := NewWithT(t)
	page := written(t, asHTML, sample(3, 60))
	for _, forbidden := range []string{"http://", "https://", "src=", "<script", "<link", "@import", "url("} {
		g.Expect(page).NotTo(ContainSubstring(forbidden))
	}
	g.Expect(page).To(And(ContainSubstring("default-src 'none'"), ContainSubstring("prefers-color-scheme: dark")), "a browser loads nothing for it")
	root, err := html.Parse(strings.NewReader(page))
	g.Expect(err).NotTo(HaveOccurred())
	count := map[string]int{}
	for node := range root.Descendants() {
		if node.Type == html.ElementNode {
			count[node.Data]++
		}
	}
	g.Expect(count).To(And(HaveKeyWithValue("svg", 2), HaveKeyWithValue("polyline", 12), HaveKeyWithValue("circle", 360), HaveKeyWithValue("h1", 1), HaveKeyWithValue("rect", 4)), "each chart has all faults")
	for _, said := range []string{
		"Load test rush", `<span class="verdict bad">Failed</span>`, "1 of 2 &lt;clusters&gt;", "This report is partial.", "its agent was lost", "PodReady P99 at most 5s", "at most 5s",
		"The measurements of 1 of 3 clusters are invalid", "not met in 1 cluster: c001", "≥ 6s", "Unschedulable", "0/20 nodes are available", "made on: Kubernetes v1.37.1", "40 (4 unfinished)", "≤ 20ms", "12.5 requests a second on average, of up to 20", "the processors were busy", "APIRequest GET resource3", "&lt;script&gt;", "32 measurements are left out", "2026-11-26 10:00:00 UTC to 2026-11-26 10:02:00 UTC, 2m0s",
	} {
		g.Expect(page).To(ContainSubstring(said))
	}
}

func TestThePageOf500ClustersIsUnderAMegabyte(t *testing.T) {
	g := NewWithT(t)
	r := sample(500, 120)
	for i := range 2000 {
		r.Faults = append(r.Faults, fault{"c001", fmt.Sprintf("node-%d", i), start, nil})
	}
	for i := range r.Runs {
		r.Runs[i].Errors = []v1alpha1.LoadError{{Reason: "Timeout", Request: "GET pods", Count: 1, Message: strings.Repeat("m", 512)}}
		r.Runs[i].Invalid = []string{strings.Repeat("i", 512)}
	}
	page := written(t, asHTML, r)
	t.Logf("%d bytes", len(page))
	g.Expect(len(page)).To(BeNumerically("<", 1<<20))
	for _, said := range []string{"440 more are left out", "480 more are left out", "492 more are left out", "470 more kinds of errors are left out", "480 more clusters are left out", "more faults are left out"} {
		g.Expect(page).To(ContainSubstring(said))
	}
}

func TestAReportOfNothingIsOneToo(t *testing.T) {
	for form := range writers {
		NewWithT(t).Expect(written(t, form, &report{Name: "rush", Phase: v1alpha1.LoadTestPhasePending})).To(ContainSubstring("rush"))
	}
}

// Users of clusterloader2 read the same fields.
func TestJSONHasPerfData(t *testing.T) {
	g := NewWithT(t)
	r := sample(1, 1)
	r.Results, r.Runs[0].Results = r.Results[:3], r.Runs[0].Results[:1]
	r.PerfData = perfDataOf(r)
	var read struct {
		PerfData json.RawMessage `json:"perfData"`
	}
	g.Expect(json.Unmarshal([]byte(written(t, asJSON, r)), &read)).To(Succeed())
	golden, err := os.ReadFile("testdata/perfdata.json")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read.PerfData).To(MatchJSON(golden))
	again := &report{}
	g.Expect(json.Unmarshal([]byte(written(t, asJSON, r)), again)).To(Succeed())
	g.Expect(written(t, asJSON, again)).To(Equal(written(t, asJSON, r)), "it is a baseline with all that there is")
}

func TestJUnitHasACaseForEachThresholdOfEachCluster(t *testing.T) {
	g := NewWithT(t)
	r := sample(3, 1)
	r.Failures = append(r.Failures, v1alpha1.ClusterFailure{Cluster: "left", Message: "it is frozen"})
	var read suites
	g.Expect(xml.Unmarshal([]byte(written(t, asJUnit, r)), &read)).To(Succeed())
	g.Expect(read.Suites).To(HaveExactElements(
		And(HaveField("Name", "rush/all clusters"), HaveField("Tests", 2), HaveField("Failures", 2), HaveField("Time", "120.000"),
			HaveField("Cases", ContainElement(And(HaveField("Name", "PodReady P99 at most 5s"), HaveField("Failure.Message", "PodReady P99 >= 6s, not 5s (4 of 40 pods were never Ready)"))))),
		And(HaveField("Name", "rush/c000"), HaveField("Tests", 2), HaveField("Failures", 0), HaveField("Errors", 1)),
		And(HaveField("Name", "rush/c001"), HaveField("Failures", 0), HaveField("Skipped", 1), HaveField("Errors", 1)),
		And(HaveField("Name", "rush/c002"), HaveField("Tests", 1), HaveField("Failures", 0), HaveField("Errors", 0)),
		And(HaveField("Name", "rush/left"), HaveField("Tests", 1), HaveField("Errors", 1)),
	))
}

func TestTextNamesWhatIsMissing(t *testing.T) {
	NewWithT(t).Expect(written(t, asText, sample(2, 1))).To(And(ContainSubstring("It is partial"), ContainSubstring("not met: PodReady P99 >= 6s, not 5s"),
		MatchRegexp(`PodReady +40 \(4 unfinished\) +>1.5s +>3s +>6s +>12s +c001 +>6s`), ContainSubstring("the processors were busy"), ContainSubstring("1 x GET pods: Timeout")))
}

func TestCompare(t *testing.T) {
	result := func(p99 time.Duration) v1alpha1.LoadTestResult {
		return v1alpha1.LoadTestResult{LoadLatency: latency(v1alpha1.LoadPodReady, "", "", p99)}
	}
	other := v1alpha1.LoadTestResult{LoadLatency: latency(v1alpha1.LoadNodeReady, "", "", time.Second)}
	slowMedian := result(time.Second)
	slowMedian.P50 = of(900 * time.Millisecond)
	for name, c := range map[string]struct {
		before, now []v1alpha1.LoadTestResult
		want        int
		says        string
	}{
		"the same":           {[]v1alpha1.LoadTestResult{result(time.Second)}, []v1alpha1.LoadTestResult{result(time.Second)}, 0, "ok"},
		"within":             {[]v1alpha1.LoadTestResult{result(time.Second)}, []v1alpha1.LoadTestResult{result(1090 * time.Millisecond)}, 0, "ok"},
		"longer":             {[]v1alpha1.LoadTestResult{result(time.Second)}, []v1alpha1.LoadTestResult{result(1120 * time.Millisecond)}, 1, "regression"},
		"shorter":            {[]v1alpha1.LoadTestResult{result(time.Second)}, []v1alpha1.LoadTestResult{result(100 * time.Millisecond)}, 0, "-90.0%"},
		"a few milliseconds": {[]v1alpha1.LoadTestResult{result(4 * time.Millisecond)}, []v1alpha1.LoadTestResult{result(9 * time.Millisecond)}, 0, "+125.0%"},
		"missing":            {[]v1alpha1.LoadTestResult{result(time.Second), other}, []v1alpha1.LoadTestResult{result(time.Second)}, 1, "missing"},
		"a bucket of the API server": {
			[]v1alpha1.LoadTestResult{{LoadLatency: latency(v1alpha1.LoadAPIServerRequest, "GET", "pods", 100*time.Millisecond)}, {LoadLatency: latency(v1alpha1.LoadAPIServerRequest, "GET", "nodes", time.Second)}},
			[]v1alpha1.LoadTestResult{{LoadLatency: latency(v1alpha1.LoadAPIServerRequest, "GET", "pods", 200*time.Millisecond)}}, 0, "+100.0%",
		},
		"the next second of times in objects": {
			[]v1alpha1.LoadTestResult{{LoadLatency: latency(v1alpha1.LoadPodReadyByObject, "", "", time.Second)}},
			[]v1alpha1.LoadTestResult{{LoadLatency: latency(v1alpha1.LoadPodReadyByObject, "", "", 2001*time.Millisecond)}}, 0, "+100.1%",
		},
		"two seconds more in objects": {
			[]v1alpha1.LoadTestResult{{LoadLatency: latency(v1alpha1.LoadPodReadyByObject, "", "", time.Second)}},
			[]v1alpha1.LoadTestResult{{LoadLatency: latency(v1alpha1.LoadPodReadyByObject, "", "", 3*time.Second)}}, 1, "regression",
		},
		"exactly 10 ms more":    {[]v1alpha1.LoadTestResult{result(4 * time.Millisecond)}, []v1alpha1.LoadTestResult{result(14 * time.Millisecond)}, 0, "ok"},
		"by more than 10 ms":    {[]v1alpha1.LoadTestResult{result(4 * time.Millisecond)}, []v1alpha1.LoadTestResult{result(14001 * time.Microsecond)}, 1, "regression"},
		"exactly the tolerance": {[]v1alpha1.LoadTestResult{result(time.Second)}, []v1alpha1.LoadTestResult{result(1100 * time.Millisecond)}, 0, "ok"},
		"the median alone":      {[]v1alpha1.LoadTestResult{result(time.Second)}, []v1alpha1.LoadTestResult{slowMedian}, 1, "regression"},
		"new":                   {[]v1alpha1.LoadTestResult{result(time.Second)}, []v1alpha1.LoadTestResult{result(time.Second), other}, 0, "new"},
		"from no time":          {[]v1alpha1.LoadTestResult{result(time.Microsecond)}, []v1alpha1.LoadTestResult{result(time.Second)}, 1, "0s 1s -"},
		"from nothing":          {[]v1alpha1.LoadTestResult{result(0)}, []v1alpha1.LoadTestResult{result(time.Second)}, 1, "regression"},
	} {
		t.Run(name, func(t *testing.T) {
			got := compareResults(c.before, c.now, 10)
			NewWithT(t).Expect(got.Regressions).To(Equal(c.want))
			NewWithT(t).Expect(fmt.Sprint(got.newTable().Rows)).To(ContainSubstring(c.says))
		})
	}
}

// Each measurement has one row, with its own result.
func TestCompareHasOneRowForEachMeasurement(t *testing.T) {
	g := NewWithT(t)
	measured := func(l v1alpha1.LoadLatency) v1alpha1.LoadTestResult { return v1alpha1.LoadTestResult{LoadLatency: l} }
	bucket := measured(latency(v1alpha1.LoadAPIServerRequest, "GET", "pods", time.Second))
	ready := measured(latency(v1alpha1.LoadPodReady, "", "", time.Second))
	got := compareResults([]v1alpha1.LoadTestResult{ready, bucket}, []v1alpha1.LoadTestResult{bucket, ready, measured(latency(v1alpha1.LoadNodeReady, "", "", time.Second))}, 10)
	var rows []string
	for _, row := range got.Rows {
		rows = append(rows, string(row.Measurement)+" "+string(row.Result))
	}
	g.Expect(rows).To(Equal([]string{"PodReady ok", "APIServerRequest not judged", "NodeReady new"}))
	var columns []string
	for _, column := range got.newTable().ColumnDefinitions {
		columns = append(columns, column.Name)
	}
	g.Expect(columns).To(ContainElements("P50 delta", "P99 delta"))
}

// broken is a file on a full disk, after so many bytes.
type broken struct{ left int }

func (b *broken) Write(text []byte) (int, error) {
	if b.left -= len(text); b.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(text), nil
}

func TestAJUnitReportIsWrittenWholeOrNotAtAll(t *testing.T) {
	g := NewWithT(t)
	text := written(t, asJUnit, sample(2, 1))
	g.Expect(text).To(HaveSuffix("</testsuites>\n"))
	for _, left := range []int{0, len(xml.Header), len(text) - 1} {
		g.Expect(writeJUnit(&broken{left}, sample(2, 1))).To(MatchError("no space left"), "after %d bytes", left)
	}
	g.Expect(limitOf(&v1alpha1.LoadThresholdResult{LoadThreshold: v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadErrors, MaxPercent: new(int32(3))}})).To(Equal("Errors at most 3%"))
	g.Expect(limitOf(&v1alpha1.LoadThresholdResult{LoadThreshold: v1alpha1.LoadThreshold{Measurement: v1alpha1.LoadPodReady}})).To(Equal("PodReady"), "no limit")
}
