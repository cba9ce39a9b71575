package loadtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// format of a report.
type format string

const (
	asText  format = "text"
	asHTML  format = "html"
	asJSON  format = "json"
	asJUnit format = "junit"
)

// writers write a report in each format.
var writers = map[format]func(io.Writer, *report) error{asText: writeText, asHTML: writeHTML, asJSON: writeJSON, asJUnit: writeJUnit}

func newReport(hub *cmdutil.Hub) *cobra.Command {
	form, file := asText, ""
	command := &cobra.Command{
		Use: "report NAME", Short: "Write the measurements of a LoadTest: as text, a page, JSON or JUnit",
		Long: `Write the measurements of a LoadTest, for all clusters together and for each: latencies, errors, whether the simulator was the
bottleneck, and what is missing. While the test is running, the report has what the agents have reported so far.

html is one page without scripts that needs no network: percentiles, latencies over the course of the test with the faults of Nodes
marked, and a map of all clusters. json has everything, including the results in the format of clusterloader2 (PerfData); compare
takes it as a baseline. junit has a test case for each threshold in each cluster.`,
		Example: `  kubectl hollow loadtest report rush
  kubectl hollow loadtest report rush -o html --output-file rush.html
  kubectl hollow loadtest report rush -o json --output-file baseline.json`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteNames(cmdutil.LoadTestKind, false),
		RunE: func(command *cobra.Command, args []string) error {
			return printReport(command.Context(), hub, args[0], form, file)
		},
	}
	cmdutil.ChoiceP(command, &form, "output", "o", "format of the report", asText, asHTML, asJSON, asJUnit)
	command.Flags().StringVar(&file, "output-file", "", "file to write, replaced if it exists (default: standard output)")
	cmdutil.KeepOldFlag(command, "file", "output-file")
	return command
}

func printReport(ctx context.Context, hub *cmdutil.Hub, name string, form format, file string) error {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	r, err := gatherReport(ctx, c, name)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := writers[form](&text, r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if file == "" {
		_, err := hub.Out.Write(text.Bytes())
		return err
	}
	const permissions = 0o644
	if err := os.WriteFile(file, text.Bytes(), permissions); err != nil {
		return fmt.Errorf("writing --output-file: %w", err)
	}
	hub.Say("Wrote %s", file)
	return nil
}

func writeJSON(out io.Writer, r *report) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func writeText(out io.Writer, r *report) error {
	fmt.Fprintf(out, "%s: %s: %s\n", r.Name, cmp.Or(string(r.Verdict), string(r.Phase)), r.Message)
	if r.Partial {
		fmt.Fprintln(out, "It is partial: measurements of a cluster are missing or not complete.")
	}
	for _, line := range slices.Concat(thresholdLines(r.Threshold, r.Clusters), unreadyLines(r.Unready), r.environmentLines()) {
		fmt.Fprintln(out, line)
	}
	if len(r.Results) > 0 {
		fmt.Fprintln(out)
		if err := (&cmdutil.Output{}).Table(out, resultTable(r.Results)); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(out, "%s: %s: %s\n", run.Cluster, cmp.Or(string(run.Verdict), string(run.Phase)), formatProgress(&run.Progress))
		if run.TargetQPS > 0 && run.AchievedQPS > 0 {
			fmt.Fprintf(out, "  up to %d requests a second asked for, %.1f made on average\n", run.TargetQPS, run.AchievedQPS)
		}
		for _, why := range run.listRemarks() {
			fmt.Fprintf(out, "  %s\n", why)
		}
		for _, one := range run.Errors {
			fmt.Fprintf(out, "  %d x %s: %s: %s\n", one.Count, one.Request, one.Reason, one.Message)
		}
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(out, "failed: %s: %s\n", failure.Cluster, failure.Message)
	}
	return nil
}

func metText(met bool) string {
	if met {
		return "met"
	}
	return "not met"
}
