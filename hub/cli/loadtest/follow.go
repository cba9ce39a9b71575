package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/follow"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// followTest shows a test and its runs until it is over, then what was measured. The error is that of its verdict. With a timeout of 0 it
// ends without a hub.
func followTest(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, test *v1alpha1.LoadTest, timeout time.Duration) error {
	bounded, stop := hub.BoundWait(ctx, c, timeout, longestTest)
	err := watchTest(bounded, hub, c, test)
	gone := cmdutil.GoneHub(bounded)
	stop()
	if cmdutil.Code(err) == cmdutil.Missing {
		return cmdutil.NotFound("loadtest %s was deleted: the agents remove what its runs made", test.Name)
	}
	if err != nil {
		hub.Note("The load test continues. To see its progress: kubectl hollow loadtest list. To end it: kubectl hollow loadtest stop %s", test.Name)
		if gone != nil {
			return gone
		}
		return fmt.Errorf("following the load test: %w", err)
	}
	if err := printResults(hub, test); err != nil {
		return err
	}
	if len(test.Status.Results) > 0 {
		hub.Say("For a full report: kubectl hollow loadtest report %s -o html --output-file %s.html", test.Name, test.Name)
	}
	return exitError(test)
}

// watchTest shows a test until it is over.
func watchTest(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, test *v1alpha1.LoadTest) error {
	return follow.InBars(ctx, hub, c, follow.Whole[*v1alpha1.LoadTest]{
		List: &v1alpha1.LoadTestList{}, Known: test,
		See: func(now *v1alpha1.LoadTest) (follow.State, bool, error) {
			*test = *now
			return testState(now), hasEnded(now), nil
		},
	}, follow.Parts[*v1alpha1.LoadTestRun]{
		List: &v1alpha1.LoadTestRunList{}, Example: &v1alpha1.LoadTestRun{},
		See: func(run *v1alpha1.LoadTestRun) (follow.State, bool) {
			return runState(run), metav1.IsControlledBy(run, test)
		},
		Count: func() int32 { return test.Status.Clusters },
	})
}

func formatProgress(p *v1alpha1.LoadProgress) string {
	text := plural.Count(p.Requests, "request")
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	if p.Delayed > 0 {
		text += fmt.Sprintf(", %d waited for a slot", p.Delayed)
	}
	if p.Skipped > 0 {
		text += fmt.Sprintf(", %d had no object", p.Skipped)
	}
	if p.PodsCreated > 0 {
		text += fmt.Sprintf(", %d of %d pods have been Ready", p.PodsReady, p.PodsCreated)
	}
	return text
}

// stepName is what agents write as a step. What they write besides is not shown in a terminal as it is.
var stepName = regexp.MustCompile(`^[-a-z0-9]{1,63}( \([0-9]+/[0-9]+\))?$`)

// testState is how a test is. There is a new line when it gets to another phase.
func testState(test *v1alpha1.LoadTest) follow.State {
	s := &test.Status
	text := fmt.Sprintf("%s in %s, %s", s.Phase, plural.Count(s.Clusters, "cluster"), formatProgress(&s.Progress))
	if s.Failed > 0 {
		text += fmt.Sprintf(", %s failed", plural.Have(s.Failed, "cluster"))
	}
	state := follow.State{
		Key: string(s.Phase), Text: text, Current: int64(s.Progress.Steps), Total: int64(s.Progress.StepsTotal), Ended: hasEnded(test),
	}
	if s.Message != "" && s.ObservedGeneration > 0 && !hasEnded(test) {
		state.Line = fmt.Sprintf("%s: %s", s.Phase, s.Message)
	}
	return state
}

// runState is how a run is. There is a new line when it gets to another step.
func runState(run *v1alpha1.LoadTestRun) follow.State {
	s := &run.Status
	step, line := phaseText(s.Phase), cmp.Or(s.Failure, s.Message)
	if s.Phase == v1alpha1.LoadTestRunPhaseRunning {
		line = s.Progress.Step + ": " + formatProgress(&s.Progress)
		if stepName.MatchString(s.Progress.Step) {
			step = s.Progress.Step
		}
	}
	state := follow.State{
		Key:  string(s.Phase) + s.Progress.Step + s.Failure,
		Text: step + ", " + formatProgress(&s.Progress), Current: int64(s.Progress.Steps), Total: int64(s.Progress.StepsTotal),
		Ended: s.Phase == v1alpha1.LoadTestRunPhaseCompleted || s.Phase == v1alpha1.LoadTestRunPhaseFailed,
	}
	if line != "" {
		state.Line = fmt.Sprintf("  %s: %s: %s", run.Namespace, s.Phase, line)
	}
	return state
}

// phaseText is a phase in fixed words.
func phaseText(phase v1alpha1.LoadTestRunPhase) string {
	switch phase {
	case v1alpha1.LoadTestRunPhasePreparing, v1alpha1.LoadTestRunPhasePrepared, v1alpha1.LoadTestRunPhaseRunning,
		v1alpha1.LoadTestRunPhaseCompleted, v1alpha1.LoadTestRunPhaseFailed:
		return strings.ToLower(string(phase))
	case v1alpha1.LoadTestRunPhaseCleaningUp:
		return "cleaning up"
	case v1alpha1.LoadTestRunPhasePending:
	}
	return "pending"
}

// printResults prints what was measured in all clusters together, the thresholds, and the clusters that have failed.
func printResults(hub *cmdutil.Hub, test *v1alpha1.LoadTest) error {
	s := &test.Status
	if len(s.Results) > 0 {
		if err := (&cmdutil.Output{}).Table(hub.Out, resultTable(s.Results)); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	for _, line := range thresholdLines(s.Thresholds, s.Clusters) {
		hub.Say("%s", line)
	}
	for _, line := range unreadyLines(s.Unready) {
		hub.Say("%s", line)
	}
	for _, failure := range s.Failures {
		hub.Note("%s: %s", failure.Cluster, failure.Message)
	}
	hub.Say("%s: %s", cmp.Or(string(s.Verdict), string(s.Phase)), s.Message)
	return nil
}

func resultTable(results []v1alpha1.LoadTestResult) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Measurement", "Count", "P50", "P90", "P99", "Max", "Worst cluster", "Its P99")}
	for i := range results {
		one := &results[i]
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			nameOfLatency(&one.LoadLatency), countText(&one.LoadLatency), timeOf(&one.LoadLatency, one.P50), timeOf(&one.LoadLatency, one.P90), timeOf(&one.LoadLatency, one.P99),
			timeOf(&one.LoadLatency, one.Max), cmp.Or(one.WorstCluster, "-"), timeOf(&one.LoadLatency, one.WorstP99),
		}})
	}
	return table
}

func nameOfLatency(l *v1alpha1.LoadLatency) string {
	return loadtest.KeyOf(l).String()
}

// formatDuration is a time as people read it. A microsecond is the shortest that a histogram has, and stands for no time at all.
func formatDuration(d metav1.Duration) string {
	if d.Duration <= time.Microsecond {
		return "0s"
	}
	return loadtest.Round(d.Duration).String()
}
