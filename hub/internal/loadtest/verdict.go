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
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

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
