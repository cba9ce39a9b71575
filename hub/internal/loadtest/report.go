package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// summarizeRuns counts runs, adds their progress up, and names those that have failed. Clusters that were left out have no run, and
// were named before.
func (d *Decision) summarizeRuns(w *view, runs []*v1alpha1.LoadTestRun) {
	s := &d.Status
	s.Prepared, s.Completed, s.Invalid, s.InvalidRuns, s.Progress = 0, 0, 0, nil, v1alpha1.LoadProgress{}
	s.Failed = max(s.Clusters-int32(len(runs)), 0)
	slowest := -1
	var failed []v1alpha1.ClusterFailure
	for i, run := range runs {
		p := &run.Status.Progress
		addProgress(&s.Progress, p)
		if !isOver(run) && (slowest < 0 || p.Steps < runs[slowest].Status.Progress.Steps) {
			slowest = i
		}
		if isPrepared(run) {
			s.Prepared++
		}
		if run.Status.Verdict == v1alpha1.LoadInvalid {
			s.Invalid++
			if len(s.InvalidRuns) < fanout.MostFailures {
				why := cmp.Or(strings.Join(run.Status.Invalid, "; "), "its agent does not say why")
				s.InvalidRuns = append(s.InvalidRuns, v1alpha1.ClusterFailure{Cluster: run.Namespace, Message: conditions.Shorten(why, fanout.MostMessage)})
			}
		}
		if why := d.failureOf(w, run); why != "" {
			s.Failed++
			failed = append(failed, v1alpha1.ClusterFailure{Cluster: run.Namespace, Message: conditions.Shorten(why, fanout.MostMessage)})
		} else if isMeasured(run) && len(run.Status.Shortfalls) == 0 {
			s.Completed++
		}
	}
	if slowest >= 0 {
		s.Progress.Step = runs[slowest].Status.Progress.Step
	}
	for _, failure := range s.Failures {
		if w.ownerIn(failure.Cluster) != fanout.Ours {
			failed = append(failed, failure)
		}
	}
	slices.SortFunc(failed, func(a, b v1alpha1.ClusterFailure) int { return cmp.Compare(a.Cluster, b.Cluster) })
	s.Failures = failed[:min(len(failed), fanout.MostFailures)]
}

// addProgress adds the progress of a run.
func addProgress(sum, p *v1alpha1.LoadProgress) {
	sum.Steps, sum.StepsTotal = sum.Steps+p.Steps, sum.StepsTotal+p.StepsTotal
	sum.Requests, sum.Failed, sum.Throttled = sum.Requests+p.Requests, sum.Failed+p.Failed, sum.Throttled+p.Throttled
	sum.Delayed, sum.Skipped = sum.Delayed+p.Delayed, sum.Skipped+p.Skipped
	sum.PodsCreated, sum.PodsReady = sum.PodsCreated+p.PodsCreated, sum.PodsReady+p.PodsReady
}

func isPrepared(run *v1alpha1.LoadTestRun) bool {
	return run.Spec.StartTime != nil || run.Status.Phase == v1alpha1.LoadTestRunPhasePrepared
}

// failureOf says why a cluster is not loaded in full; empty if it is, as far as is known.
func (d *Decision) failureOf(w *view, run *v1alpha1.LoadTestRun) string {
	switch over := isOver(run); {
	case run.DecodeError != "":
		return "the run cannot be decoded: " + run.DecodeError
	case d.late && run.Spec.StartTime == nil && !slices.Contains(d.Start, run):
		return w.whyUnprepared(run)
	case run.Status.Failure != "":
		return run.Status.Failure
	case run.Status.Phase == v1alpha1.LoadTestRunPhaseFailed:
		return cmp.Or(run.Status.Failure, run.Status.Message, "its agent does not say why")
	case len(run.Status.Shortfalls) > 0 && run.Status.Verdict != v1alpha1.LoadInvalid:
		return strings.Join(run.Status.Shortfalls, "; ")
	case w.explainApart(run) != "":
		return w.explainApart(run)
	case d.Status.StartTime == nil || over:
		return ""
	case !isMeasured(run) && run.Spec.StartTime != nil && d.explainLost(w, run) != "":
		return d.explainLost(w, run)
	}
	return d.notDisrupted(w, run)
}

// whyUnprepared says why a run had not started with the others.
func (w *view) whyUnprepared(run *v1alpha1.LoadTestRun) string {
	if why := w.WhyNotStart(run.Namespace); why != "" {
		return "left out: " + why
	}
	return "it was not prepared when the test started: " + cmp.Or(run.Status.Failure, run.Status.Message, "its agent has not reported on it")
}

// explainApart says why a run was not together with the others; empty if it was, as far as is known. Times of start are by the agents'
// clocks.
func (w *view) explainApart(run *v1alpha1.LoadTestRun) string {
	if run.Spec.StartTime == nil {
		return ""
	}
	if began := run.Status.StartTime; began != nil && began.Sub(run.Spec.StartTime.Time) > lateStart {
		return fmt.Sprintf("it started %s after the others", began.Sub(run.Spec.StartTime.Time).Round(time.Second))
	}
	cluster := w.Named(run.Namespace)
	if cluster == nil || cluster.Status.ClockSkew == nil || cluster.Status.ClockSkew.Abs() <= lateStart {
		return ""
	}
	skew, way := cluster.Status.ClockSkew.Duration, "ahead of"
	if skew < 0 {
		way = "behind"
	}
	return fmt.Sprintf("it did not start with the others: its agent's clock is %s %s the hub's", skew.Abs(), way)
}

// notDisrupted says why Nodes did not fail as they should; empty if they did, or may still.
func (d *Decision) notDisrupted(w *view, run *v1alpha1.LoadTestRun) string {
	if !w.hasDisruption() || run.Spec.StartTime == nil {
		return ""
	}
	switch beside := w.disruptions[run.Namespace]; {
	case beside == nil && w.Now.After(d.Status.StartTime.Add(lateStart)):
		return "no Node was disrupted: its NodeDisruptionRun " + w.Test.Name + disruptionSuffix + " is missing"
	case beside == nil:
	case parentOf(w.Test).OwnerOf(beside) != fanout.Ours:
		return "no Node was disrupted, because another NodeDisruptionRun has the name " + beside.Name
	case beside.Status.Phase == v1alpha1.NodeDisruptionFailed:
		return "Nodes did not fail as planned: " + beside.Status.Message
	}
	return ""
}

// End ends a test with what was merged. From here on only cleaning up changes its status.
func (d *Decision) End(world *World, merged *loadtest.Merged) {
	w := newView(world)
	s, runs := &d.Status, w.ownRuns()
	ended := metav1.NewTime(w.Now)
	if last := lastEnd(runs); last != nil && d.allEnded(runs) {
		ended = *last
	}
	s.EndTime = &ended
	for cluster, why := range merged.Unreadable {
		if failed := slices.ContainsFunc(s.Failures, func(f v1alpha1.ClusterFailure) bool { return f.Cluster == cluster }); !failed {
			s.Failed, s.Completed = s.Failed+1, max(s.Completed-1, 0)
			fanout.NoteFailure(&s.Failures, cluster, why)
		}
	}
	slices.SortFunc(s.Failures, func(a, b v1alpha1.ClusterFailure) int { return cmp.Compare(a.Cluster, b.Cluster) })
	s.Partial = s.Failed > 0
	s.Results = merged.Results()
	s.Unready = merged.Unready()
	s.Thresholds, s.Missed = merged.Evaluate(w.loadThresholds())
	s.Verdict = d.testVerdict()
	d.Merge = false
	d.Next = time.Time{}
	d.awaitCleanup(w, runs)
	d.concludeTest(w)
}

// lastEnd is when the last of runs ended, as far as they say so.
func lastEnd(runs []*v1alpha1.LoadTestRun) (last *metav1.Time) {
	for _, run := range runs {
		if last == nil || run.Status.EndTime != nil && last.Before(run.Status.EndTime) {
			last = run.Status.EndTime
		}
	}
	return last
}

// allEnded reports whether every run that has started says when it ended.
func (d *Decision) allEnded(runs []*v1alpha1.LoadTestRun) bool {
	return !slices.ContainsFunc(runs, func(run *v1alpha1.LoadTestRun) bool { return run.Spec.StartTime != nil && run.Status.EndTime == nil })
}

// testVerdict of a test that has ended. Without any run nothing is known.
func (d *Decision) testVerdict() v1alpha1.LoadVerdict {
	s := &d.Status
	missed := slices.ContainsFunc(s.Thresholds, func(r v1alpha1.LoadThresholdResult) bool { return !r.Met })
	valid := s.Clusters > s.Invalid
	switch {
	case s.Failed > 0 || s.Missed > 0 || missed && valid:
		return v1alpha1.LoadMissed
	case s.Invalid > 0:
		return v1alpha1.LoadInvalid
	case s.Completed == 0:
		return v1alpha1.LoadMissed
	case len(s.Thresholds) > 0:
		return v1alpha1.LoadPassed
	}
	return ""
}

// describeOutcome says how a test that has ended was.
func (d *Decision) describeOutcome() string {
	s := &d.Status
	full := "in full"
	if s.Progress.Failed > 0 { // As many as a threshold allows.
		full = fmt.Sprintf("(%d of %d requests failed)", s.Progress.Failed, s.Progress.Requests)
	}
	texts := []string{fmt.Sprintf("%d of %d clusters were loaded %s", s.Completed, s.Clusters, full)}
	var missed []string
	for i := range s.Thresholds {
		if !s.Thresholds[i].Met {
			missed = append(missed, loadtest.Describe(&s.Thresholds[i]))
		}
	}
	switch {
	case len(missed) > 0:
		texts = append(texts, fmt.Sprintf("%d of %d thresholds are not met: %s", len(missed), len(s.Thresholds), strings.Join(missed, "; ")))
	case s.Missed > 0:
		texts = append(texts, metText(len(s.Thresholds))+" over all clusters together")
	case len(s.Thresholds) > 0:
		texts = append(texts, metText(len(s.Thresholds)))
	}
	for i := range s.Thresholds {
		if text := missedText(&s.Thresholds[i], s.Clusters); text != "" {
			texts = append(texts, text)
		}
	}
	if text := unreadyText(s); text != "" {
		texts = append(texts, text)
	}
	if s.Invalid > 0 {
		texts = append(texts, fmt.Sprintf("the measurements of %d of %d clusters are invalid: %s", s.Invalid, s.Clusters, namesOf(s.InvalidRuns, s.Invalid)))
	}
	if len(s.Failures) > 0 {
		texts = append(texts, "see status.failures for the others")
	}
	// Whatever else has failed is named.
	if deleted := int(s.Failed) - len(s.Failures); deleted > 0 && len(s.Failures) < fanout.MostFailures {
		texts = append(texts, plural.Were(deleted, "LoadTestRun")+" deleted during the test")
	}
	return strings.Join(texts, ", ")
}

// metText says that all thresholds are met.
func metText(thresholds int) string {
	if thresholds == 1 {
		return "the threshold is met"
	}
	return fmt.Sprintf("all %d thresholds are met", thresholds)
}

// missedText names the clusters that do not meet a threshold for themselves.
func missedText(r *v1alpha1.LoadThresholdResult, clusters int32) string {
	if r.MissedClusters == 0 {
		return ""
	}
	verb := "do"
	if r.MissedClusters == 1 {
		verb = "does"
	}
	text := fmt.Sprintf("%d of %d clusters %s not meet %s: %s", r.MissedClusters, clusters, verb, loadtest.LimitText(&r.LoadThreshold), strings.Join(r.MissedIn, " "))
	if more := int(r.MissedClusters) - len(r.MissedIn); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if r.Scope == v1alpha1.LoadScopeFleet {
		text += " (its scope is Fleet)"
	}
	return text
}

// unreadyText says how many pods were never Ready, and why most of them.
func unreadyText(s *v1alpha1.LoadTestStatus) string {
	if len(s.Unready) == 0 {
		return ""
	}
	count := int64(0)
	for _, one := range s.Unready {
		count += one.Count
	}
	return fmt.Sprintf("%s never Ready (most often %s)", plural.Were(count, "pod"), s.Unready[0].Reason)
}

// namesOf are the clusters of a list that may be shortened, and what there is to say about the first.
func namesOf(list []v1alpha1.ClusterFailure, count int32) string {
	names := make([]string, 0, len(list))
	for _, one := range list {
		names = append(names, one.Cluster)
	}
	text := strings.Join(names, " ")
	if more := int(count) - len(list); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(list) > 0 {
		text += fmt.Sprintf(" (%s)", list[0].Message)
	}
	return text
}
