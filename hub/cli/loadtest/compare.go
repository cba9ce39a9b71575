package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// leastDifference is a difference that counts for nothing, however much it is of 100: requests are answered within milliseconds.
const leastDifference = 10 * time.Millisecond

// leastDifferenceByObject is that of times which are whole seconds, as precise as a histogram keeps them: the next second counts for
// nothing.
const leastDifferenceByObject = 1500 * time.Millisecond

type compareOptions struct {
	baseline, tolerance, format string
	allowed                     []string
	percent                     float64
}

func newCompare(hub *cmdutil.Hub) *cobra.Command {
	o := &compareOptions{tolerance: "10%"}
	command := &cobra.Command{
		Use: "compare NAME --baseline FILE", Short: "Compare the measurements of a LoadTest with those of an earlier one",
		Long: `Compare the p50 and p99 of a LoadTest over all clusters with those of an earlier one, from a file that report -o json has
written. A latency that is longer by more than --tolerance and by more than 10ms is a regression; for PodReadyByObject, which has
whole seconds, by more than 1s. The exit code is then 5. It is also 5 if a measurement exists only in the baseline, or more of it had
no end, such as pods that were never Ready. APIServerRequest is shown but not judged, because only the bounds of its
buckets are known; neither is APIRequestFailed, where the number counts.

Two tests can be compared if they ran the same load in the same number of clusters, with the same versions, number of Nodes, profile
of hollow nodes and machine, and if both are valid and complete. Otherwise the differences are listed, nothing is judged, and the
exit code is 4. --allow-different accepts a difference that you want to measure.`,
		Example: `  kubectl hollow loadtest report monday -o json --output-file baseline.json
  kubectl hollow loadtest compare tuesday --baseline baseline.json --tolerance 15%

  # What an upgrade has changed
  kubectl hollow loadtest compare after --baseline before.json --allow-different versions`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteNames(cmdutil.LoadTestKind, false),
		RunE: func(command *cobra.Command, args []string) error {
			percent, err := strconv.ParseFloat(strings.TrimSuffix(o.tolerance, "%"), 64)
			if err != nil || percent < 0 {
				return cmdutil.Usage("--tolerance: want a percentage such as 10%%, got %q", o.tolerance)
			}
			if o.baseline == "" {
				return cmdutil.Usage("want --baseline")
			}
			if o.format != string(asText) && o.format != string(asJSON) {
				return cmdutil.Usage("-o: want text or json, got %q", o.format)
			}
			for _, one := range o.allowed {
				if !slices.Contains(properties, property(one)) {
					return cmdutil.Usage("--allow-different: want one of %s, got %q", joinValues(properties), one)
				}
			}
			o.percent = percent
			return o.run(command.Context(), hub, args[0])
		},
	}
	command.Flags().StringVar(&o.baseline, "baseline", "", "file written by report -o json for an earlier test")
	command.Flags().StringVar(&o.tolerance, "tolerance", o.tolerance, "how much longer a latency may be")
	command.Flags().StringSliceVar(&o.allowed, "allow-different", nil, "in what the two tests may differ: "+joinValues(properties))
	command.Flags().StringVarP(&o.format, "output", "o", string(asText), "output format: text or json")
	return command
}

func (o *compareOptions) run(ctx context.Context, hub *cmdutil.Hub, name string) error {
	text, err := os.ReadFile(o.baseline)
	if err != nil {
		return fmt.Errorf("reading the baseline: %w", err)
	}
	before := &report{}
	if err := json.Unmarshal(text, before); err != nil {
		return cmdutil.Usage("%s is not a report: %w", o.baseline, err)
	}
	if len(before.Results) == 0 {
		return cmdutil.Usage("%s has no results to compare with", o.baseline)
	}
	hubClient, err := hub.Client()
	if err != nil {
		return err
	}
	now, err := gatherReport(ctx, hubClient, name)
	if err != nil {
		return err
	}
	c := compareResults(before.Results, now.Results, o.percent)
	c.Name, c.Baseline, c.Differences = now.Name, before.Name, findDifferences(before, now)
	var refused []string
	for _, one := range c.Differences {
		if !slices.Contains(o.allowed, string(one.Property)) {
			refused = append(refused, string(one.Property))
		}
	}
	if len(refused) > 0 {
		c.clearVerdicts()
	}
	telling := hub
	if o.format == string(asJSON) {
		aside := *hub
		telling, aside.Out = &aside, hub.ErrOut
		encoder := json.NewEncoder(hub.Out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(c)
	} else {
		err = (&cmdutil.Output{}).Table(hub.Out, c.newTable())
	}
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	for _, one := range c.Differences {
		hub.Note("different: %s: %s in %s, %s in %s", one.Property, one.Before, before.Name, one.Now, now.Name)
	}
	if len(refused) > 0 {
		return cmdutil.Refusal("%s and %s cannot be compared, because they differ: make them equal, or set --allow-different %s", before.Name, now.Name, strings.Join(refused, ","))
	}
	if c.Regressions > 0 {
		return cmdutil.Timeout("%s longer than in %s by more than %g%%, or missing", plural.Are(c.Regressions, "measurement"), before.Name, o.percent)
	}
	telling.Say("no regression against %s", before.Name)
	return nil
}

// result of one measurement in a comparison.
type result string

const (
	isOK, isRegression result = "ok", "regression"
	// isMissing and isNew were measured before only, and now only.
	isMissing, isNew result = "missing", "new"
	// isNotJudged is what the API server counts itself: it is known by the bounds of its buckets, of which the next is twice as long.
	isNotJudged result = "not judged"
	// isIncomparable is anything in tests that differ.
	isIncomparable result = "not comparable"
)

// compared is one measurement before and now; nil where it was not measured.
type compared struct {
	Measurement v1alpha1.LoadMeasurement `json:"measurement"`
	Verb        string                   `json:"verb,omitempty"`
	Resource    string                   `json:"resource,omitempty"`
	// RequestScope is that of APIServerRequest.
	RequestScope string `json:"requestScope,omitempty"`
	// UnfinishedBefore and Unfinished are how many had not ended: the times are lower bounds then.
	UnfinishedBefore int64            `json:"unfinishedBefore,omitempty"`
	Unfinished       int64            `json:"unfinished,omitempty"`
	P50Before        *metav1.Duration `json:"p50Before,omitempty"`
	P50              *metav1.Duration `json:"p50,omitempty"`
	P99Before        *metav1.Duration `json:"p99Before,omitempty"`
	P99              *metav1.Duration `json:"p99,omitempty"`
	Result           result           `json:"result"`
}

// comparison is what -o json prints.
type comparison struct {
	Name        string  `json:"name"`
	Baseline    string  `json:"baseline"`
	Tolerance   float64 `json:"tolerancePercent"`
	Regressions int     `json:"regressions"`
	// Differences are what keeps the tests from being compared.
	Differences []difference `json:"differences,omitempty"`
	Rows        []compared   `json:"measurements"`
}

// compareResults has a row for each that was measured before or now.
func compareResults(before, now []v1alpha1.LoadTestResult, percent float64) *comparison {
	c := &comparison{Tolerance: percent}
	known := map[loadtest.Key]*v1alpha1.LoadTestResult{}
	for i := range now {
		known[keyOf(&now[i].LoadLatency)] = &now[i]
	}
	for i := range before {
		old := &before[i]
		found := known[keyOf(&old.LoadLatency)]
		delete(known, keyOf(&old.LoadLatency))
		judged := old.Measurement != v1alpha1.LoadAPIServerRequest && old.Measurement != v1alpha1.LoadAPIRequestFailed
		if found == nil && !judged {
			continue
		}
		row := comparedOf(old)
		row.P50Before, row.P99Before, row.UnfinishedBefore, row.Result = &old.P50, &old.P99, old.Unfinished, isOK
		switch {
		case found == nil:
			row.Result = isMissing
		case !judged:
			row.Result = isNotJudged
		case found.Unfinished*old.Count > old.Unfinished*found.Count, isLonger(old.Measurement, old.P50, found.P50, percent), isLonger(old.Measurement, old.P99, found.P99, percent):
			row.Result = isRegression
		}
		if found != nil {
			row.P50, row.P99, row.Unfinished = &found.P50, &found.P99, found.Unfinished
		}
		if row.Result == isMissing || row.Result == isRegression {
			c.Regressions++
		}
		c.Rows = append(c.Rows, row)
	}
	for i := range now {
		if one := &now[i]; known[keyOf(&one.LoadLatency)] != nil {
			row := comparedOf(one)
			row.P50, row.P99, row.Unfinished, row.Result = &one.P50, &one.P99, one.Unfinished, isNew
			c.Rows = append(c.Rows, row)
		}
	}
	return c
}

func comparedOf(l *v1alpha1.LoadTestResult) compared {
	return compared{Measurement: l.Measurement, Verb: l.Verb, Resource: l.Resource, RequestScope: l.RequestScope}
}

// clearVerdicts judges nothing.
func (c *comparison) clearVerdicts() {
	c.Regressions = 0
	for i := range c.Rows {
		c.Rows[i].Result = isIncomparable
	}
}

func (c *comparison) newTable() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Measurement", "P50 before", "P50", "Delta", "P99 before", "P99", "Delta", "Result")}
	// kubectl's printer wants columns of different names.
	table.ColumnDefinitions[3].Name, table.ColumnDefinitions[6].Name = "P50 delta", "P99 delta"
	for i := range c.Rows {
		row := &c.Rows[i]
		name := loadtest.Key{Measurement: row.Measurement, Verb: row.Verb, Resource: row.Resource, Scope: row.RequestScope}.String()
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			name, row.formatCell(row.P50Before, row.UnfinishedBefore), row.formatCell(row.P50, row.Unfinished), formatDelta(row.P50Before, row.P50), row.formatCell(row.P99Before, row.UnfinishedBefore), row.formatCell(row.P99, row.Unfinished), formatDelta(row.P99Before, row.P99), string(row.Result),
		}})
	}
	return table
}

func (r *compared) formatCell(d *metav1.Duration, unfinished int64) string {
	if d == nil {
		return "-"
	}
	return timeOf(&v1alpha1.LoadLatency{Bounds: r.Measurement == v1alpha1.LoadAPIServerRequest, Unfinished: unfinished}, *d)
}

func isLonger(measurement v1alpha1.LoadMeasurement, before, now metav1.Duration, percent float64) bool {
	least := leastDifference
	if measurement == v1alpha1.LoadPodReadyByObject {
		least = leastDifferenceByObject
	}
	return now.Duration-before.Duration > least && float64(now.Duration) > float64(before.Duration)*(1+percent/100)
}

// formatDelta is how much longer a time is. Nothing is said of one that was not a time at all.
func formatDelta(before, now *metav1.Duration) string {
	if before == nil || now == nil || before.Duration <= time.Microsecond {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", (float64(now.Duration)/float64(before.Duration)-1)*100)
}
