// Package loadtest has the commands of "kubectl hollow loadtest".
package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// NewCommand returns "loadtest".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "loadtest", Aliases: []string{"loadtests"}, Short: "Run one load test in many clusters, and measure",
		Long: `Put the same load on many clusters at the same time: pods, ConfigMaps or any objects from templates, created, read, changed and
deleted at a given rate. Each cluster's agent measures how long pods take to start and requests take to be answered. The hub merges
the measurements of all clusters and reports whether the thresholds are met.`,
	}, newRun(hub), newList(hub), newStop(hub), newReport(hub), newCompare(hub), newImport(hub))
}

func newList(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.NewListCommand(hub, &cobra.Command{
		Short: "List LoadTests, their progress and verdicts",
		Long: `List LoadTests: their phase, whether their thresholds were met, and in how many clusters they run, completed, failed, or
are invalid because the simulator was the bottleneck. Missed counts requests that were due but not made. -o wide adds the message.`,
		Example: `  kubectl hollow loadtest list`,
	}, "No LoadTests. Create one with: kubectl hollow loadtest run", &v1alpha1.LoadTestList{}, testTable)
}

func testTable(tests *v1alpha1.LoadTestList, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns(
		"Name", "Phase", "Verdict", "Clusters", "Completed", "Failed", "Invalid", "Requests", "Errors", "Missed", "Age", "+Message")}
	for i := range tests.Items {
		one := &tests.Items[i]
		s := &one.Status
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			one.Name, cmp.Or(string(s.Phase), "-"), cmp.Or(string(s.Verdict), "-"), s.Clusters, s.Completed, s.Failed, s.Invalid,
			s.Progress.Requests, s.Progress.Failed, s.Progress.Skipped, duration.HumanDuration(now.Sub(one.CreationTimestamp.Time)), s.Message,
		}})
	}
	return table
}

func newStop(hub *cmdutil.Hub) *cobra.Command {
	var dryRun *cmdutil.DryRun
	command := &cobra.Command{
		Use: "stop NAME", Short: "Stop a LoadTest in all clusters, and keep its measurements",
		Long: `Stop a LoadTest in all clusters. Its measurements are kept, and its objects are removed as spec.load.cleanupPolicy says. Nodes
that a disruption of the test has broken are restored. To remove the test with everything it created: kubectl delete loadtest NAME.`,
		Example: `  kubectl hollow loadtest stop rush`, Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteNames(cmdutil.LoadTestKind, false),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := dryRun.Client(hub)
			if err != nil {
				return err
			}
			test, err := getTest(command.Context(), c, args[0])
			if err != nil {
				return err
			}
			if hasEnded(test) {
				return cmdutil.Refusal("load test %s is over: %s", test.Name, test.Status.Message)
			}
			if err := c.Patch(command.Context(), test, client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"stopped":true}}`))); err != nil {
				return fmt.Errorf("stopping the load test: %w", err)
			}
			dryRun.Telling(hub).Say("loadtest.hollowfleet.io/%s stopped", args[0])
			return nil
		},
	}
	dryRun = cmdutil.NewDryRun(command)
	return command
}

// getTest reads a LoadTest.
func getTest(ctx context.Context, c client.Client, name string) (*v1alpha1.LoadTest, error) {
	test := &v1alpha1.LoadTest{}
	return test, cmdutil.Get(ctx, c, cmdutil.LoadTestKind, client.ObjectKey{Name: name}, test)
}

// hasEnded reports whether nothing happens to a test any more.
func hasEnded(test *v1alpha1.LoadTest) bool {
	return test.Status.Phase == v1alpha1.LoadTestPhaseCompleted || test.Status.Phase == v1alpha1.LoadTestPhaseFailed
}

// exitError is the error that a test which has ended ends the command with. It follows the verdict: what was measured in an Invalid run
// misses no threshold.
func exitError(test *v1alpha1.LoadTest) error { return reportOf(test).exitError() }

// exitError is the same of a report. One of a test that is not over fails.
func (r *report) exitError() error {
	s := r
	switch {
	case r.Phase != v1alpha1.LoadTestPhaseFailed && r.Phase != v1alpha1.LoadTestPhaseCompleted:
		return fmt.Errorf("the load test is not over: %s", cmp.Or(string(r.Phase), "Pending"))
	case s.Phase == v1alpha1.LoadTestPhaseFailed:
		return fmt.Errorf("the load test was not carried out: %s", s.Message)
	case s.Verdict == v1alpha1.LoadInvalid:
		return fmt.Errorf("the verdict is Invalid: the measurements of %d of %d clusters say nothing about the clusters", s.Invalid, s.Clusters)
	case s.Verdict == v1alpha1.LoadPassed, s.Verdict == "":
		return nil
	}
	for _, threshold := range s.Threshold {
		if !threshold.Met {
			return cmdutil.Timeout("the verdict is %s: %s", s.Verdict, loadtest.Describe(&threshold))
		}
	}
	if s.Missed > 0 {
		return cmdutil.Timeout("the verdict is %s: %d of %d clusters do not meet a threshold that applies to each cluster", s.Verdict, s.Missed, s.Clusters)
	}
	return fmt.Errorf("the load test was not carried out in full in %d of %d clusters", s.Failed, s.Clusters)
}
