package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// leastDifference is a difference that counts for nothing, however much it is of 100: requests are answered within milliseconds.
const leastDifference = 10 * time.Millisecond

// leastDifferenceByObject is that of times which are whole seconds, as precise as a histogram keeps them: the next second counts for
// nothing.
const leastDifferenceByObject = 1500 * time.Millisecond

type compareOptions struct {
	baseline, tolerance, format string
	percent                     float64
}

func newCompare(hub *cmdutil.Hub) *cobra.Command {
	o := &compareOptions{tolerance: "10%"}
	command := &cobra.Command{
		Use: "compare NAME --baseline FILE", Short: "Compare what a LoadTest has measured with an earlier one",
		Long: `Compare the p50 and p99 that a LoadTest has measured over all clusters with those of an earlier one, of which report -o json has
written a file. One that is longer by more than --tolerance, and by more than 10ms, is a regression; for PodReadyByObject, whose times
are whole seconds, by more than 1s. The exit code is 5 then, and also if something was measured in the baseline only. APIServerRequest
is shown and not judged, because it is known by the bounds of buckets only.`,
		Example: `  kubectl hollow loadtest report monday -o json --file baseline.json
  kubectl hollow loadtest compare tuesday --baseline baseline.json --tolerance 15%`,
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
			o.percent = percent
			return o.run(command.Context(), hub, args[0])
		},
	}
	command.Flags().StringVar(&o.baseline, "baseline", "", "file that report -o json has written of an earlier test")
	command.Flags().StringVar(&o.tolerance, "tolerance", o.tolerance, "how much longer a time may be")
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
		return cmdutil.Usage("%s is no report: %w", o.baseline, err)
	}
	if len(before.Results) == 0 {
		return cmdutil.Usage("%s has no results to compare with", o.baseline)
	}
	hubClient, err := hub.Client()
	if err != nil {
		return err
	}
	now, err := gather(ctx, hubClient, name)
	if err != nil {
		return err
	}
	c := compare(before.Results, now.Results, o.percent)
	c.Name, c.Baseline = now.Name, before.Name
	telling := hub
	if o.format == string(asJSON) {
		aside := *hub
		telling, aside.Out = &aside, hub.ErrOut
		encoder := json.NewEncoder(hub.Out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(c)
	} else {
		err = (&cmdutil.Output{}).Table(hub.Out, c.table())
	}
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	for _, one := range []*report{before, now} {
		if one.Partial || one.Verdict == v1alpha1.LoadInvalid {
			hub.Note("The comparison is of little worth: %s is partial or invalid.", one.Name)
		}
	}
	if c.Regressions > 0 {
		return cmdutil.Timeout("%d measurements are longer than in %s by more than %g%%, or missing", c.Regressions, before.Name, o.percent)
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
)

// compared is one measurement before and now; nil where it was not measured.
type compared struct {
	Measurement v1alpha1.LoadMeasurement `json:"measurement"`
	Verb        string                   `json:"verb,omitempty"`
	Resource    string                   `json:"resource,omitempty"`
	P50Before   *metav1.Duration         `json:"p50Before,omitempty"`
	P50         *metav1.Duration         `json:"p50,omitempty"`
	P99Before   *metav1.Duration         `json:"p99Before,omitempty"`
	P99         *metav1.Duration         `json:"p99,omitempty"`
	Result      result                   `json:"result"`
}

// comparison is what -o json prints.
type comparison struct {
	Name        string     `json:"name"`
	Baseline    string     `json:"baseline"`
	Tolerance   float64    `json:"tolerancePercent"`
	Regressions int        `json:"regressions"`
	Rows        []compared `json:"measurements"`
}

// compare has a row for each that was measured before or now.
func compare(before, now []v1alpha1.LoadTestResult, percent float64) *comparison {
	c := &comparison{Tolerance: percent}
	known := map[loadtest.Key]*v1alpha1.LoadTestResult{}
	for i := range now {
		known[keyOf(&now[i].LoadLatency)] = &now[i]
	}
	for i := range before {
		old := &before[i]
		found := known[keyOf(&old.LoadLatency)]
		delete(known, keyOf(&old.LoadLatency))
		judged := old.Measurement != v1alpha1.LoadAPIServerRequest
		if found == nil && !judged {
			continue
		}
		row := compared{Measurement: old.Measurement, Verb: old.Verb, Resource: old.Resource, P50Before: &old.P50, P99Before: &old.P99, Result: isOK}
		switch {
		case found == nil:
			row.Result = isMissing
		case !judged:
			row.Result = isNotJudged
		case longer(old.Measurement, old.P50, found.P50, percent) || longer(old.Measurement, old.P99, found.P99, percent):
			row.Result = isRegression
		}
		if found != nil {
			row.P50, row.P99 = &found.P50, &found.P99
		}
		if row.Result == isMissing || row.Result == isRegression {
			c.Regressions++
		}
		c.Rows = append(c.Rows, row)
	}
	for i := range now {
		if one := &now[i]; known[keyOf(&one.LoadLatency)] != nil {
			c.Rows = append(c.Rows, compared{Measurement: one.Measurement, Verb: one.Verb, Resource: one.Resource, P50: &one.P50, P99: &one.P99, Result: isNew})
		}
	}
	return c
}

func (c *comparison) table() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Measurement", "P50 before", "P50", "Delta", "P99 before", "P99", "Delta", "Result")}
	// kubectl's printer wants columns of different names.
	table.ColumnDefinitions[3].Name, table.ColumnDefinitions[6].Name = "P50 delta", "P99 delta"
	for i := range c.Rows {
		row := &c.Rows[i]
		name := loadtest.Key{Measurement: row.Measurement, Verb: row.Verb, Resource: row.Resource}.String()
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			name, cell(row.P50Before), cell(row.P50), delta(row.P50Before, row.P50), cell(row.P99Before), cell(row.P99), delta(row.P99Before, row.P99), string(row.Result),
		}})
	}
	return table
}

func cell(d *metav1.Duration) string {
	if d == nil {
		return "-"
	}
	return short(*d)
}

func longer(measurement v1alpha1.LoadMeasurement, before, now metav1.Duration, percent float64) bool {
	least := leastDifference
	if measurement == v1alpha1.LoadPodReadyByObject {
		least = leastDifferenceByObject
	}
	return now.Duration-before.Duration > least && float64(now.Duration) > float64(before.Duration)*(1+percent/100)
}

// delta is how much longer a time is. Nothing is said of one that was no time at all.
func delta(before, now *metav1.Duration) string {
	if before == nil || now == nil || before.Duration <= time.Microsecond {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", (float64(now.Duration)/float64(before.Duration)-1)*100)
}
