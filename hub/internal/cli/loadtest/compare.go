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

func newCompare(hub *cmdutil.Hub) *cobra.Command {
	baseline, tolerance := "", "10%"
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
			percent, err := strconv.ParseFloat(strings.TrimSuffix(tolerance, "%"), 64)
			if err != nil || percent < 0 {
				return cmdutil.Usage("--tolerance: want a percentage such as 10%%, got %q", tolerance)
			}
			if baseline == "" {
				return cmdutil.Usage("want --baseline")
			}
			return compareWith(command.Context(), hub, args[0], baseline, percent)
		},
	}
	command.Flags().StringVar(&baseline, "baseline", "", "file that report -o json has written of an earlier test")
	command.Flags().StringVar(&tolerance, "tolerance", tolerance, "how much longer a time may be")
	return command
}

func compareWith(ctx context.Context, hub *cmdutil.Hub, name, file string, percent float64) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the baseline: %w", err)
	}
	before := &report{}
	if err := json.Unmarshal(text, before); err != nil {
		return cmdutil.Usage("%s is no report: %w", file, err)
	}
	if len(before.Results) == 0 {
		return cmdutil.Usage("%s has no results to compare with", file)
	}
	c, err := hub.Client()
	if err != nil {
		return err
	}
	now, err := gather(ctx, c, name)
	if err != nil {
		return err
	}
	table, regressions := comparison(before.Results, now.Results, percent)
	if err := (&cmdutil.Output{}).Table(hub.Out, table); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	for _, one := range []*report{before, now} {
		if one.Partial || one.Verdict == v1alpha1.LoadInvalid {
			hub.Note("The comparison is of little worth: %s is partial or invalid.", one.Name)
		}
	}
	if regressions > 0 {
		return cmdutil.Timeout("%d measurements are longer than in %s by more than %g%%, or missing", regressions, before.Name, percent)
	}
	hub.Say("no regression against %s", before.Name)
	return nil
}

// comparison has a row for each that was measured before or now.
func comparison(before, now []v1alpha1.LoadTestResult, percent float64) (*metav1.Table, int) {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Measurement", "P50 before", "P50", "Delta", "P99 before", "P99", "Delta", "Result")}
	// kubectl's printer wants columns of different names.
	table.ColumnDefinitions[3].Name, table.ColumnDefinitions[6].Name = "P50 delta", "P99 delta"
	regressions := 0
	known := map[loadtest.Key]*v1alpha1.LoadTestResult{}
	for i := range now {
		known[keyOf(&now[i].LoadLatency)] = &now[i]
	}
	for i := range before {
		old := &before[i]
		found := known[keyOf(&old.LoadLatency)]
		delete(known, keyOf(&old.LoadLatency))
		// What the API server counts itself is known by the bounds of its buckets, of which the next is twice as long.
		judged := old.Measurement != v1alpha1.LoadAPIServerRequest
		if found == nil {
			if !judged {
				continue
			}
			regressions++
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{nameOfLatency(&old.LoadLatency), short(old.P50), "-", "-", short(old.P99), "-", "-", "missing"}})
			continue
		}
		result := "ok"
		if !judged {
			result = "-"
		} else if longer(old.Measurement, old.P50, found.P50, percent) || longer(old.Measurement, old.P99, found.P99, percent) {
			regressions++
			result = "regression"
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			nameOfLatency(&old.LoadLatency), short(old.P50), short(found.P50), delta(old.P50, found.P50), short(old.P99), short(found.P99), delta(old.P99, found.P99), result,
		}})
	}
	for i := range now {
		if known[keyOf(&now[i].LoadLatency)] != nil {
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{nameOfLatency(&now[i].LoadLatency), "-", short(now[i].P50), "-", "-", short(now[i].P99), "-", "new"}})
		}
	}
	return table, regressions
}

func longer(measurement v1alpha1.LoadMeasurement, before, now metav1.Duration, percent float64) bool {
	least := leastDifference
	if measurement == v1alpha1.LoadPodReadyByObject {
		least = leastDifferenceByObject
	}
	return now.Duration-before.Duration > least && float64(now.Duration) > float64(before.Duration)*(1+percent/100)
}

func delta(before, now metav1.Duration) string {
	if before.Duration <= 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", (float64(now.Duration)/float64(before.Duration)-1)*100)
}
