package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
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
