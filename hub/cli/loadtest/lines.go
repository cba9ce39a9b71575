package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// thresholdLines say what happened to each threshold, and which clusters do not meet it for themselves.
func thresholdLines(results []v1alpha1.LoadThresholdResult, clusters int32) (lines []string) {
	for i := range results {
		lines = append(lines, metText(results[i].Met)+": "+loadtest.Describe(&results[i]))
		if missed := missedText(&results[i], clusters); missed != "" {
			lines = append(lines, "  "+missed)
		}
	}
	return lines
}

// missedClusters is how many clusters do not meet a threshold, of how many where that is known.
func missedClusters(missed, clusters int32) string {
	if clusters > 0 {
		return fmt.Sprintf("%d of %s", missed, plural.Count(clusters, "cluster"))
	}
	return plural.Count(missed, "cluster")
}

// missedText names the clusters that do not meet a threshold for themselves; empty if all do.
func missedText(result *v1alpha1.LoadThresholdResult, clusters int32) string {
	if result.MissedClusters == 0 {
		return ""
	}
	text := fmt.Sprintf("not met in %s: %s", missedClusters(result.MissedClusters, clusters), strings.Join(result.MissedIn, ", "))
	if more := int(result.MissedClusters) - len(result.MissedIn); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if result.Scope == v1alpha1.LoadScopeFleet {
		text += " (which its scope Fleet allows)"
	}
	return text
}

// missedLines are the thresholds that a run does not meet.
func (r *clusterReport) missedLines() (lines []string) {
	for i := range r.Threshold {
		if !r.Threshold[i].Met {
			lines = append(lines, "not met: "+loadtest.Describe(&r.Threshold[i]))
		}
	}
	return lines
}

// unreadyLines say why pods were never Ready.
func unreadyLines(unready []v1alpha1.LoadUnready) (lines []string) {
	for _, one := range unready {
		line := fmt.Sprintf("never Ready: %s: %s", countThings(int(one.Count), "pod"), one.Reason)
		if one.Message != "" {
			line += ": " + one.Message
		}
		lines = append(lines, line)
	}
	return lines
}

// countThings is a number of things.
func countThings(number int, thing string) string {
	if number == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", number, thing)
}

// simulatorLines say what makes it possible that the simulator was the bottleneck.
func (r *clusterReport) simulatorLines() (lines []string) {
	if r.Simulator == nil {
		return nil
	}
	for _, doubt := range r.Simulator.Doubts {
		lines = append(lines, "in doubt: "+doubt)
	}
	return lines
}

// listRemarks are all that there is to say about a run beside its counts: what was not done, why its measurements are invalid or in
// doubt, and what is missing.
func (r *clusterReport) listRemarks() (lines []string) {
	shortfalls := r.Shortfalls
	if r.Failure == strings.Join(shortfalls, "; ") {
		shortfalls = nil // The hub names them as the failure.
	}
	for _, line := range slices.Concat([]string{r.Failure}, shortfalls, r.Invalid, r.simulatorLines(), r.missedLines(), unreadyLines(r.Unready), r.Notes) {
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// timeOf is one of the times of a measurement: those of the API server's buckets are upper bounds, and those with something
// unfinished lower ones.
func timeOf(l *v1alpha1.LoadLatency, d metav1.Duration) string {
	if !l.Bounds && l.Unfinished == 0 {
		return formatDuration(d)
	}
	return strings.Replace(loadtest.TimeText(d, l.Bounds, l.Unfinished > 0), "= ", "", 1)
}

// countText is how many measurements there are, and how many of them had not ended.
func countText(l *v1alpha1.LoadLatency) string {
	if l.Unfinished == 0 {
		return fmt.Sprint(l.Count)
	}
	return fmt.Sprintf("%d (%d unfinished)", l.Count, l.Unfinished)
}

// targetQPS is the highest rate that a step asks for, all its phases together.
func targetQPS(load *v1alpha1.Load) (most int32) {
	for _, step := range load.Steps {
		sum := int32(0)
		for _, phase := range step.Phases {
			if phase.Action != v1alpha1.LoadWait {
				sum += cmp.Or(phase.Tuning.QPS, qpsByDefault)
			}
		}
		most = max(most, sum)
	}
	return most
}

// qpsByDefault is that of a tuning.
const qpsByDefault = 5

// achievedQPS is how many requests a run made in a second on average, from its first step to the end of its last.
func achievedQPS(s *v1alpha1.LoadTestRunStatus) float64 {
	if s.StartTime == nil || s.EndTime == nil || !s.StartTime.Before(s.EndTime) {
		return 0
	}
	return float64(s.Progress.Requests) / s.EndTime.Sub(s.StartTime.Time).Seconds()
}
