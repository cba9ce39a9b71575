package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// display shows how a test goes.
type display interface {
	// test is called with each state of the test, and run with each state of one of its runs.
	showTest(*v1alpha1.LoadTest)
	showRun(*v1alpha1.LoadTestRun)
	// close leaves what is shown as it is.
	closeDisplay()
}

// followTest shows a test and its runs until it is over, then what was measured. The error is that of its verdict. With a timeout of 0 it
// ends without a hub.
func followTest(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, test *v1alpha1.LoadTest, timeout time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(timeout, longestTest))
	defer cancel()
	var telling func()
	if timeout == 0 {
		bounded, telling = hub.EndWithoutHub(bounded, c)
	} else {
		telling = hub.NoteStoppedHub(bounded, c)
	}
	err := watchTest(bounded, hub, c, test)
	gone := cmdutil.GoneHub(bounded)
	telling()
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
	shown := newDisplay(hub)
	following, stop := context.WithCancel(ctx)
	var mu sync.Mutex // It guards shown.
	var done sync.WaitGroup
	done.Go(func() {
		// All runs of a test have its name.
		_ = cmdutil.Each(following, c, &v1alpha1.LoadTestRunList{}, client.ObjectKey{Name: test.Name}, &v1alpha1.LoadTestRun{}, func(run *v1alpha1.LoadTestRun) {
			if owner := metav1.GetControllerOf(run); owner == nil || owner.UID != test.UID {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			shown.showRun(run)
		})
	})
	err := cmdutil.Until(ctx, c, &v1alpha1.LoadTestList{}, client.ObjectKeyFromObject(test), &v1alpha1.LoadTest{}, func(now *v1alpha1.LoadTest) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		// The events of the watch may start before the state that was listed.
		if order, err := resourceversion.CompareResourceVersion(now.ResourceVersion, test.ResourceVersion); err == nil && order < 0 {
			return hasEnded(test), nil
		}
		*test = *now
		shown.showTest(now)
		return hasEnded(now), nil
	})
	stop()
	done.Wait()
	shown.closeDisplay()
	return err
}

// newDisplay returns bars for a terminal, and lines for anything else.
func newDisplay(hub *cmdutil.Hub) display {
	if terminal, is := hub.Terminal(); is {
		b := &bars{shown: cmdutil.NewBars(terminal), clusters: map[string]*cmdutil.Bar{}}
		b.all = b.shown.Add("all clusters", 1<<20, false)
		return b
	}
	return &lines{hub: hub, said: map[string]string{}}
}

// lines is a display that prints a line when a run gets to another step, and when the test gets to another phase.
type lines struct {
	hub  *cmdutil.Hub
	said map[string]string
}

func (l *lines) sayOnce(name, state, format string, args ...any) {
	if l.said[name] == state {
		return
	}
	l.said[name] = state
	l.hub.Say(format, args...)
}

func (l *lines) showTest(test *v1alpha1.LoadTest) {
	if s := &test.Status; s.Message != "" && s.ObservedGeneration > 0 && !hasEnded(test) {
		l.sayOnce("", string(s.Phase), "%s: %s", s.Phase, s.Message)
	}
}

func (l *lines) showRun(run *v1alpha1.LoadTestRun) {
	s := &run.Status
	state := string(s.Phase) + s.Progress.Step + s.Failure
	text := cmp.Or(s.Failure, s.Message)
	if s.Phase == v1alpha1.LoadTestRunPhaseRunning {
		text = s.Progress.Step + ": " + formatProgress(&s.Progress)
	}
	if text != "" {
		l.sayOnce(run.Namespace, state, "  %s: %s: %s", run.Namespace, s.Phase, text)
	}
}

func (l *lines) closeDisplay() {}

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

// bars is a display for a terminal: a bar for each cluster, and one for all of them.
type bars struct {
	shown    *cmdutil.Bars
	all      *cmdutil.Bar
	clusters map[string]*cmdutil.Bar
	number   int32
}

// stepName is what agents write as a step. What they write besides is not shown in a terminal as it is.
var stepName = regexp.MustCompile(`^[-a-z0-9]{1,63}( \([0-9]+/[0-9]+\))?$`)

func (b *bars) showTest(test *v1alpha1.LoadTest) {
	s := &test.Status
	b.number = s.Clusters
	text := fmt.Sprintf("%s in %s, %s", s.Phase, plural.Count(s.Clusters, "cluster"), formatProgress(&s.Progress))
	if s.Failed > 0 {
		text += fmt.Sprintf(", %s failed", plural.Have(s.Failed, "cluster"))
	}
	b.all.Show(int64(s.Progress.Steps), int64(s.Progress.StepsTotal), hasEnded(test), text)
}

func (b *bars) showRun(run *v1alpha1.LoadTestRun) {
	found, known := b.clusters[run.Namespace]
	if !known {
		found = b.shown.Add(run.Namespace, len(b.clusters), b.number > cmdutil.MostBars)
		b.clusters[run.Namespace] = found
	}
	s := &run.Status
	text := phaseText(s.Phase)
	if s.Phase == v1alpha1.LoadTestRunPhaseRunning && stepName.MatchString(s.Progress.Step) {
		text = s.Progress.Step
	}
	found.Show(int64(s.Progress.Steps), int64(s.Progress.StepsTotal), s.Phase == v1alpha1.LoadTestRunPhaseCompleted || s.Phase == v1alpha1.LoadTestRunPhaseFailed, text+", "+formatProgress(&s.Progress))
}

// phaseText is a phase in fixed words.
func phaseText(phase v1alpha1.LoadTestRunPhase) string {
	switch phase {
	case v1alpha1.LoadTestRunPhasePreparing:
		return "preparing"
	case v1alpha1.LoadTestRunPhasePrepared:
		return "prepared"
	case v1alpha1.LoadTestRunPhaseRunning:
		return "running"
	case v1alpha1.LoadTestRunPhaseCleaningUp:
		return "cleaning up"
	case v1alpha1.LoadTestRunPhaseCompleted:
		return "completed"
	case v1alpha1.LoadTestRunPhaseFailed:
		return "failed"
	case v1alpha1.LoadTestRunPhasePending:
	}
	return "pending"
}

func (b *bars) closeDisplay() {
	for _, one := range b.clusters {
		one.Stop()
	}
	b.all.Stop()
	b.shown.Wait()
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
