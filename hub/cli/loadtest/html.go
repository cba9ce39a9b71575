package loadtest

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/htmlpage"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// mostMapped, mostColumns, mostDetailed, mostDetails and mostErrors bound the page, which says what it leaves out.
	mostMapped, mostColumns, mostDetailed, mostDetails, mostErrors = 60, 10, 20, 16, 30
	// mostShade is the number of the darkest colour in the map of clusters. The style has them.
	mostShade = 12
)

//go:embed report.html.tmpl
var pageText string

var pageTemplate = htmlpage.Parse("report", pageText, template.FuncMap{
	"short": formatDuration, "time": timeText, "met": metText,
	"name":     func(l v1alpha1.LoadLatency) string { return nameOfLatency(&l) },
	"missed":   func(result v1alpha1.LoadThresholdResult) string { return missedText(&result, 0) },
	"limit":    func(result v1alpha1.LoadThresholdResult) string { return limitOf(&result) },
	"at":       func(l v1alpha1.LoadLatency, d metav1.Duration) string { return signs.Replace(timeOf(&l, d)) },
	"count":    func(l v1alpha1.LoadLatency) string { return countText(&l) },
	"measured": func(r v1alpha1.LoadThresholdResult) string { return signs.Replace(measuredText(&r)) },
	"remarks":  func(r clusterReport) []string { return r.listRemarks() },
	"machine":  machineText,
	"counts":   func(p v1alpha1.LoadProgress) string { return formatProgress(&p) },
	"or":       func(a, b any) string { return cmp.Or(fmt.Sprint(a), fmt.Sprint(b)) },
})

// signs are those of a page in place of those of a terminal.
var signs = strings.NewReplacer("> longest", "> longest", ">", "≥ ", "<", "≤ ")

// measuredText is the time that a threshold limits.
func measuredText(r *v1alpha1.LoadThresholdResult) string {
	return timeOf(&v1alpha1.LoadLatency{Bounds: r.Measurement == v1alpha1.LoadAPIServerRequest, Unfinished: r.Unfinished}, *r.Measured)
}

// htmlPage is what the page shows.
type htmlPage struct {
	*report
	Charts []*chart
	Map    heatMap
	// Detailed are clusters with all that they have measured, those first that are worst.
	Detailed        []clusterReport
	DetailedOmitted int
	Errors          []clusterError
	ErrorsOmitted   int
	// Simulators are clusters in which the simulator was the bottleneck, and then others.
	Simulators        []clusterReport
	SimulatorsOmitted int
	Took              string
}

// VerdictClass is the colour of the verdict.
func (p htmlPage) VerdictClass() string {
	switch p.Verdict {
	case v1alpha1.LoadPassed:
		return "good"
	case v1alpha1.LoadMissed:
		return "bad"
	case v1alpha1.LoadInvalid:
		return "warn"
	}
	return "soft"
}

// EnvironmentLines say what the runs were made on.
func (p htmlPage) EnvironmentLines() []string { return p.environmentLines() }

// InDoubt reports whether the simulator may have been the bottleneck somewhere.
func (p htmlPage) InDoubt() bool {
	return slices.ContainsFunc(p.Runs, func(run clusterReport) bool { return run.Simulator != nil && len(run.Simulator.Doubts) > 0 })
}

// FailuresOmitted is how many clusters have failed that the hub does not name.
func (p htmlPage) FailuresOmitted() int { return max(int(p.Failed)-len(p.Failures), 0) }

// FaultCount is how many Nodes have failed, again and again counted once.
func (p htmlPage) FaultCount() int { return len(p.Faults) + p.FaultsOmitted }

type clusterError struct {
	Cluster string
	v1alpha1.LoadError
}

func writeHTML(out io.Writer, r *report) error { return writePage(out, r, "report") }

// writePage writes the page, or what a part of its template makes of it.
func writePage(out io.Writer, r *report, part string) error {
	page := htmlPage{report: r, Charts: chartsOf(r), Map: mapOf(r)}
	if r.StartTime != nil && r.EndTime != nil {
		page.Took = r.EndTime.Sub(r.StartTime.Time).Round(time.Second).String()
	}
	ranked := worstFirst(r)
	page.DetailedOmitted = max(len(ranked)-mostDetailed, 0)
	page.Detailed = slices.Clone(ranked[:len(ranked)-page.DetailedOmitted])
	for i := range page.Detailed {
		page.Detailed[i].Results = page.Detailed[i].Results[:min(len(page.Detailed[i].Results), mostDetails)]
	}
	for _, run := range ranked {
		for _, one := range run.Errors {
			page.Errors = append(page.Errors, clusterError{run.Cluster, one})
		}
	}
	slices.SortStableFunc(page.Errors, func(a, b clusterError) int { return cmp.Compare(b.Count, a.Count) })
	page.ErrorsOmitted = max(len(page.Errors)-mostErrors, 0)
	page.Errors = page.Errors[:len(page.Errors)-page.ErrorsOmitted]
	simulators := slices.DeleteFunc(slices.Clone(ranked), func(run clusterReport) bool { return run.Simulator == nil && len(run.Invalid) == 0 })
	slices.SortStableFunc(simulators, func(a, b clusterReport) int { return cmp.Compare(len(b.Invalid), len(a.Invalid)) })
	page.SimulatorsOmitted = max(len(simulators)-mostDetailed, 0)
	page.Simulators = simulators[:len(simulators)-page.SimulatorsOmitted]
	return htmlpage.Execute(pageTemplate, out, part, page)
}

// worstFirst has those first that have failed, are invalid or have missed thresholds, and then by their p99 of what the fleet measured
// first.
func worstFirst(r *report) []clusterReport {
	ranked := slices.Clone(r.Runs)
	slices.SortStableFunc(ranked, func(a, b clusterReport) int {
		return cmp.Or(cmp.Compare(badnessOf(&b), badnessOf(&a)), cmp.Compare(p99Of(r, &b), p99Of(r, &a)))
	})
	return ranked
}

func badnessOf(run *clusterReport) int {
	switch {
	case run.Failure != "":
		return 3
	case run.Verdict == v1alpha1.LoadInvalid:
		return 2
	case run.Verdict == v1alpha1.LoadMissed:
		return 1
	}
	return 0
}

func p99Of(r *report, run *clusterReport) time.Duration {
	if len(r.Results) == 0 {
		return 0
	}
	if found := findLatency(run, keyOf(&r.Results[0].LoadLatency)); found != nil {
		return found.P99.Duration
	}
	return 0
}

func findLatency(run *clusterReport, key loadtest.Key) *v1alpha1.LoadLatency {
	for i := range run.Results {
		if keyOf(&run.Results[i]) == key {
			return &run.Results[i]
		}
	}
	return nil
}

// heatMap has the p99 of clusters by what was measured.
type heatMap struct {
	Columns        []string
	Rows           []heatRow
	Omitted        int
	ColumnsOmitted int
}

type heatRow struct {
	Cluster string
	Cells   []heatCell
}

type heatCell struct {
	Text, Title string
	// Shade is the number of the colour, from 0 to mostShade.
	Shade int
}

// mapOf shades each cell by where it is between the shortest and the longest p99 of its column.
func mapOf(r *report) heatMap {
	m := heatMap{ColumnsOmitted: max(len(r.Results)-mostColumns, 0)}
	columns := r.Results[:len(r.Results)-m.ColumnsOmitted]
	ranked := worstFirst(r)
	m.Omitted = max(len(ranked)-mostMapped, 0)
	for i := range columns {
		m.Columns = append(m.Columns, nameOfLatency(&columns[i].LoadLatency))
	}
	for i := range ranked[:len(ranked)-m.Omitted] {
		m.Rows = append(m.Rows, heatRow{Cluster: ranked[i].Cluster, Cells: make([]heatCell, len(columns))})
	}
	for column := range columns {
		shortest, longest := time.Duration(-1), time.Duration(0)
		for i := range ranked {
			if found := findLatency(&ranked[i], keyOf(&columns[column].LoadLatency)); found != nil {
				longest = max(longest, found.P99.Duration)
				if shortest < 0 || found.P99.Duration < shortest {
					shortest = found.P99.Duration
				}
			}
		}
		for i := range m.Rows {
			m.Rows[i].Cells[column] = cellOf(findLatency(&ranked[i], keyOf(&columns[column].LoadLatency)), shortest, longest)
		}
	}
	return m
}

func cellOf(found *v1alpha1.LoadLatency, shortest, longest time.Duration) heatCell {
	if found == nil {
		return heatCell{Text: "–", Title: "not measured"}
	}
	shade := 0
	if longest > shortest {
		shade = int(mostShade * (found.P99.Duration - shortest) / (longest - shortest))
	}
	return heatCell{
		Text: signs.Replace(timeOf(found, found.P99)), Title: fmt.Sprintf("%s, p50 %s, p90 %s, p99 %s", plural.Count(found.Count, "measurement"), formatDuration(found.P50), formatDuration(found.P90), formatDuration(found.P99)),
		Shade: shade,
	}
}
