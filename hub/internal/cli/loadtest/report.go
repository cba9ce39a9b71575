package loadtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
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
		Use: "report NAME", Short: "Write what a LoadTest has measured: as text, a page, JSON or JUnit",
		Long: `Write what a LoadTest has measured, in all clusters together and in each: how long what took, errors, whether the simulator was the
bottleneck, and what is missing. Of a test that goes on it is what the agents have reported so far.

html is one page without scripts that needs no network: percentiles, times over the course of the test with the faults of Nodes in
them, and a map of all clusters. json has all of it, with the results in the form of clusterloader2 (PerfData) too; compare takes it
as a baseline. junit has a test case for each threshold in each cluster.`,
		Example: `  kubectl hollow loadtest report rush
  kubectl hollow loadtest report rush -o html --file rush.html
  kubectl hollow loadtest report rush -o json --file baseline.json`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteNames(cmdutil.LoadTestKind, false),
		RunE: func(command *cobra.Command, args []string) error {
			return printReport(command.Context(), hub, args[0], form, file)
		},
	}
	cmdutil.ChoiceP(command, &form, "output", "o", "format of the report", asText, asHTML, asJSON, asJUnit)
	command.Flags().StringVar(&file, "file", "", "file to write, in place of standard output")
	return command
}

func printReport(ctx context.Context, hub *cmdutil.Hub, name string, form format, file string) error {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	r, err := gather(ctx, c, name)
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
		return fmt.Errorf("writing the report: %w", err)
	}
	hub.Say("%s written: %d bytes", file, text.Len())
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
	for i := range r.Threshold {
		fmt.Fprintf(out, "%s: %s\n", metText(r.Threshold[i].Met), loadtest.Describe(&r.Threshold[i]))
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
		fmt.Fprintf(out, "%s: %s: %s\n", run.Cluster, cmp.Or(string(run.Verdict), string(run.Phase)), counts(&run.Progress))
		for _, why := range slices.Concat([]string{run.Failure}, run.Invalid, run.Notes) {
			if why != "" {
				fmt.Fprintf(out, "  %s\n", why)
			}
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

// The elements of a JUnit report.
type (
	suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Name    string   `xml:"name,attr"`
		Suites  []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Time     string     `xml:"time,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *problem `xml:"failure,omitempty"`
		Error   *problem `xml:"error,omitempty"`
	}
	problem struct {
		Message string `xml:"message,attr"`
	}
)

// writeJUnit has a suite for all clusters together and one for each, with a test case for each threshold. A cluster that was not
// loaded in full, or where the simulator was the bottleneck, has one more, which is an error.
func writeJUnit(out io.Writer, r *report) error {
	all := suites{Name: r.Name}
	seconds := 0.0
	if r.StartTime != nil && r.EndTime != nil {
		seconds = r.EndTime.Sub(r.StartTime.Time).Seconds()
	}
	all.Suites = append(all.Suites, suiteOf(r.Name, "all clusters", r.Threshold, nil, seconds))
	known := map[string]bool{}
	for _, run := range r.Runs {
		known[run.Cluster] = true
		var errors []string
		if run.Failure != "" {
			errors = append(errors, run.Failure)
		}
		all.Suites = append(all.Suites, suiteOf(r.Name, run.Cluster, run.Threshold, append(errors, run.Invalid...), seconds))
	}
	for _, failure := range r.Failures {
		if !known[failure.Cluster] {
			all.Suites = append(all.Suites, suiteOf(r.Name, failure.Cluster, nil, []string{failure.Message}, 0))
		}
	}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(out)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

func suiteOf(test, name string, thresholds []v1alpha1.LoadThresholdResult, errors []string, seconds float64) suite {
	s := suite{Name: test + "/" + name, Time: fmt.Sprintf("%.3f", seconds)}
	for i := range thresholds {
		result := &thresholds[i]
		one := testCase{Class: s.Name, Name: limitOf(result)}
		if !result.Met {
			one.Failure = &problem{loadtest.Describe(result)}
			s.Failures++
		}
		s.Cases = append(s.Cases, one)
	}
	for _, message := range errors {
		s.Cases = append(s.Cases, testCase{Class: s.Name, Name: "carried out in full", Error: &problem{message}})
		s.Errors++
	}
	s.Tests = len(s.Cases)
	return s
}

// limitOf is what a threshold asks for, the same for every run.
func limitOf(result *v1alpha1.LoadThresholdResult) string {
	name := loadtest.Key{Measurement: result.Measurement, Verb: result.Verb, Resource: result.Resource}.String()
	switch {
	case result.MaxPercent != nil:
		return fmt.Sprintf("%s at most %d%%", name, *result.MaxPercent)
	case result.Max != nil:
		return fmt.Sprintf("%s %s at most %s", name, cmp.Or(result.Quantile, v1alpha1.LoadP99), result.Max.Duration)
	}
	return name
}
