package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
)

// summarize counts runs, adds their progress up, and names those that have failed. Clusters that were left out have no run, and
// were named before.
func (d *Decision) summarize(w *view, runs []*v1alpha1.LoadTestRun) {
	s := &d.Status
	s.Prepared, s.Completed, s.Invalid, s.Progress = 0, 0, 0, v1alpha1.LoadProgress{}
	s.Failed = max(s.Clusters-int32(len(runs)), 0)
	slowest := -1
	var failed []v1alpha1.LoadTestFailure
	for i, run := range runs {
		p := &run.Status.Progress
		add(&s.Progress, p)
		if !over(run) && (slowest < 0 || p.Steps < runs[slowest].Status.Progress.Steps) {
			slowest = i
		}
		if prepared(run) {
			s.Prepared++
		}
		if run.Status.Verdict == v1alpha1.LoadInvalid {
			s.Invalid++
		}
		if why := d.failureOf(w, run); why != "" {
			s.Failed++
			failed = append(failed, v1alpha1.LoadTestFailure{Cluster: run.Namespace, Message: conditions.Shorten(why, mostMessage)})
		} else if measured(run) {
			s.Completed++
		}
	}
	if slowest >= 0 {
		s.Progress.Step = runs[slowest].Status.Progress.Step
	}
	for _, failure := range s.Failures {
		if w.taken(failure.Cluster) != ours {
			failed = append(failed, failure)
		}
	}
	slices.SortFunc(failed, func(a, b v1alpha1.LoadTestFailure) int { return cmp.Compare(a.Cluster, b.Cluster) })
	s.Failures = failed[:min(len(failed), mostFailures)]
}

// add adds the progress of a run.
func add(sum, p *v1alpha1.LoadProgress) {
	sum.Steps, sum.StepsTotal = sum.Steps+p.Steps, sum.StepsTotal+p.StepsTotal
	sum.Requests, sum.Failed, sum.Throttled = sum.Requests+p.Requests, sum.Failed+p.Failed, sum.Throttled+p.Throttled
	sum.PodsCreated, sum.PodsReady = sum.PodsCreated+p.PodsCreated, sum.PodsReady+p.PodsReady
}

func prepared(run *v1alpha1.LoadTestRun) bool {
	return run.Spec.StartTime != nil || run.Status.Phase == v1alpha1.LoadTestPrepared
}

// failureOf says why a cluster is not loaded in full; empty if it is, as far as is known.
func (d *Decision) failureOf(w *view, run *v1alpha1.LoadTestRun) string {
	switch over := over(run); {
	case run.DecodeError != "":
		return "the run cannot be decoded: " + run.DecodeError
	case d.late && run.Spec.StartTime == nil && !slices.Contains(d.Start, run):
		if cluster := w.clusters[run.Namespace]; cluster != nil && w.unfit(cluster) != "" {
			return w.unfit(cluster)
		}
		return "it was not prepared when the test began: " + cmp.Or(run.Status.Failure, run.Status.Message, "its agent has said nothing of it")
	case run.Status.Failure != "":
		return run.Status.Failure
	case run.Status.Phase == v1alpha1.LoadTestFailed:
		return cmp.Or(run.Status.Failure, run.Status.Message, "its agent does not say why")
	case w.apart(run) != "":
		return w.apart(run)
	case d.Status.StartTime == nil || over:
		return ""
	case !measured(run) && run.Spec.StartTime != nil && d.lost(w, run) != "":
		return d.lost(w, run)
	}
	return d.notDisrupted(w, run)
}

// apart says why a run was not together with the others; empty if it was, as far as is known. Times of begin are by the agents'
// clocks.
func (w *view) apart(run *v1alpha1.LoadTestRun) string {
	if run.Spec.StartTime == nil {
		return ""
	}
	if began := run.Status.StartTime; began != nil && began.Sub(run.Spec.StartTime.Time) > lateStart {
		return fmt.Sprintf("it began %s after the others", began.Sub(run.Spec.StartTime.Time).Round(time.Second))
	}
	cluster := w.clusters[run.Namespace]
	if cluster == nil || cluster.Status.ClockSkew == nil || cluster.Status.ClockSkew.Abs() <= lateStart {
		return ""
	}
	skew, way := cluster.Status.ClockSkew.Duration, "ahead of"
	if skew < 0 {
		way = "behind"
	}
	return fmt.Sprintf("it did not begin with the others: its agent's clock is %s %s the hub's", skew.Abs(), way)
}

// notDisrupted says why Nodes did not fail as they should; empty if they did, or may still.
func (d *Decision) notDisrupted(w *view, run *v1alpha1.LoadTestRun) string {
	if !w.disrupted() || run.Spec.StartTime == nil {
		return ""
	}
	switch beside := w.disruptions[run.Namespace]; {
	case beside == nil && w.Now.After(d.Status.StartTime.Add(lateStart)):
		return "no Node was let fail: its NodeDisruptionRun " + w.Test.Name + disruptionSuffix + " is missing"
	case beside == nil:
	case w.ownerOf(&beside.ObjectMeta) != ours:
		return "no Node was let fail, because another NodeDisruptionRun has the name " + beside.Name
	case beside.Status.Phase == v1alpha1.NodeDisruptionFailed:
		return "Nodes did not fail as they should: " + beside.Status.Message
	}
	return ""
}

// End ends a test with what was merged. From here on only cleaning up changes its status.
func (d *Decision) End(world *World, merged *Merged) {
	w := newView(world)
	s, runs := &d.Status, w.own()
	ended := metav1.NewTime(w.Now)
	if last := lastEnd(runs); last != nil && d.allEnded(runs) {
		ended = *last
	}
	s.EndTime = &ended
	for cluster, why := range merged.Unreadable {
		if failed := slices.ContainsFunc(s.Failures, func(f v1alpha1.LoadTestFailure) bool { return f.Cluster == cluster }); !failed {
			s.Failed, s.Completed = s.Failed+1, max(s.Completed-1, 0)
			d.fail(cluster, why)
		}
	}
	slices.SortFunc(s.Failures, func(a, b v1alpha1.LoadTestFailure) int { return cmp.Compare(a.Cluster, b.Cluster) })
	s.Partial = s.Failed > 0
	s.Results = merged.Results()
	s.Thresholds = loadtest.Evaluate(w.thresholds(), merged.Measurements, s.Progress.Requests, s.Progress.Failed)
	s.Verdict = d.verdict()
	d.Merge = false
	d.Next = time.Time{}
	d.finish(w, runs)
	d.conclude(w)
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

// allEnded tells whether every run that has begun says when it ended.
func (d *Decision) allEnded(runs []*v1alpha1.LoadTestRun) bool {
	return !slices.ContainsFunc(runs, func(run *v1alpha1.LoadTestRun) bool { return run.Spec.StartTime != nil && run.Status.EndTime == nil })
}

// verdict of a test that has ended.
func (d *Decision) verdict() v1alpha1.LoadVerdict {
	s := &d.Status
	switch missed := slices.ContainsFunc(s.Thresholds, func(r v1alpha1.LoadThresholdResult) bool { return !r.Met }); {
	case s.Failed > 0 || missed:
		return v1alpha1.LoadMissed
	case s.Invalid > 0:
		return v1alpha1.LoadInvalid
	case len(s.Thresholds) > 0:
		return v1alpha1.LoadPassed
	}
	return ""
}

// outcome says how a test that has ended was.
func (d *Decision) outcome() string {
	s := &d.Status
	texts := []string{fmt.Sprintf("%d of %d clusters were loaded in full", s.Completed, s.Clusters)}
	var missed []string
	for i := range s.Thresholds {
		if !s.Thresholds[i].Met {
			missed = append(missed, loadtest.Describe(&s.Thresholds[i]))
		}
	}
	switch {
	case len(missed) > 0:
		texts = append(texts, fmt.Sprintf("%d of %d thresholds are not met: %s", len(missed), len(s.Thresholds), strings.Join(missed, "; ")))
	case len(s.Thresholds) > 0:
		texts = append(texts, fmt.Sprintf("all %d thresholds are met", len(s.Thresholds)))
	}
	if s.Invalid > 0 {
		texts = append(texts, fmt.Sprintf("in %d clusters the simulator was the bottleneck", s.Invalid))
	}
	if s.Failed > 0 {
		texts = append(texts, "see status.failures for the others")
	}
	return strings.Join(texts, ", ")
}
