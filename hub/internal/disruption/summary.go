package disruption

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
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// summarizeRuns sums up the current runs.
func (d *Decision) summarizeRuns(w *World, current []v1alpha1.NodeDisruptionRun, next time.Time) {
	s := &d.Status
	s.Clusters, s.Completed, s.Selected, s.Injected, s.Observed, s.Recovered = int32(len(current)), 0, 0, 0, 0, 0
	s.Expectations, s.Verdict = nil, ""
	left := slices.DeleteFunc(s.Failures, func(f v1alpha1.ClusterFailure) bool {
		return slices.ContainsFunc(current, func(run v1alpha1.NodeDisruptionRun) bool { return run.Namespace == f.Cluster })
	})
	s.Failed = int32(len(left))
	passed, unknown := 0, 0
	phases := map[v1alpha1.NodeDisruptionRunPhase]int{}
	for i := range current {
		run := &current[i]
		phases[cmp.Or(run.Status.Phase, v1alpha1.NodeDisruptionPending)]++
		addCounts(s, run)
		if failure := failureOf(run); failure != "" {
			s.Failed++
			left = append(left, v1alpha1.ClusterFailure{Cluster: run.Namespace, Message: conditions.Shorten(failure, fanout.MostMessage)})
		} else if run.Status.Phase == v1alpha1.NodeDisruptionCompleted {
			s.Completed++
		}
		switch run.Status.Verdict {
		case v1alpha1.DisruptionPassed:
			passed++
		case v1alpha1.DisruptionUnknown:
			unknown++
		case v1alpha1.DisruptionMissed: // A failure, which is counted above.
		}
	}
	if len(w.Disruption.Spec.Expectations) > 0 {
		s.Verdict = overallVerdict(int(s.Failed), passed, unknown, len(current))
	}
	slices.SortFunc(left, func(a, b v1alpha1.ClusterFailure) int { return cmp.Compare(a.Cluster, b.Cluster) })
	s.Failures = left[:min(len(left), fanout.MostFailures)]
	d.describeProgress(w, phases)
	if !next.IsZero() && !w.Disruption.Spec.Paused && !w.Disruption.Spec.DryRun {
		at := metav1.NewTime(next)
		s.NextScheduleTime, d.Next = &at, next
	}
	conditions.ConcludeDisruption(&s.Conditions, s.Phase, s.Message, w.Disruption.Generation, w.Now)
}

// overallVerdict is that of all runs. A run is counted as unknown when it is over.
func overallVerdict(failed, passed, unknown, all int) v1alpha1.DisruptionVerdict {
	switch {
	case failed > 0:
		return v1alpha1.DisruptionMissed
	case unknown > 0 && passed+unknown == all:
		return v1alpha1.DisruptionUnknown
	case passed > 0 && passed == all:
		return v1alpha1.DisruptionPassed
	default:
		return ""
	}
}

// addCounts adds what a run counts.
func addCounts(s *v1alpha1.NodeDisruptionStatus, run *v1alpha1.NodeDisruptionRun) {
	s.Selected, s.Injected = s.Selected+run.Status.Selected, s.Injected+run.Status.Injected
	s.Observed, s.Recovered = s.Observed+run.Status.Observed, s.Recovered+run.Status.Recovered
	for i, result := range run.Status.Expectations {
		if i == len(s.Expectations) {
			s.Expectations = append(s.Expectations, v1alpha1.ExpectationResult{Type: result.Type})
		}
		sum := &s.Expectations[i]
		sum.Met, sum.Missed, sum.Pending, sum.Unknown = sum.Met+result.Met, sum.Missed+result.Missed, sum.Pending+result.Pending, sum.Unknown+result.Unknown
	}
}

// failureOf says why a run has failed; empty if it has not.
func failureOf(run *v1alpha1.NodeDisruptionRun) string {
	switch {
	case run.DecodeError != "":
		return "the run cannot be decoded: " + run.DecodeError
	case run.Status.Phase == v1alpha1.NodeDisruptionFailed:
		return run.Status.Message
	case run.Status.Verdict == v1alpha1.DisruptionMissed:
		return missedExpectations(run)
	default:
		return ""
	}
}

// missedExpectations says which expectations a run has missed.
func missedExpectations(run *v1alpha1.NodeDisruptionRun) string {
	var texts []string
	for i, result := range run.Status.Expectations {
		if result.Missed > 0 {
			texts = append(texts, fmt.Sprintf("expectations[%d] %s was missed on %d of %d Nodes", i, result.Type, result.Missed, result.Met+result.Missed+result.Pending+result.Unknown))
		}
	}
	if len(texts) == 0 {
		return "no Node matched the expectation"
	}
	return strings.Join(texts, "; ")
}

// firstFailure is why the first of the clusters that failed did, and how many more there are; empty if none did.
func firstFailure(failures []v1alpha1.ClusterFailure) string {
	if len(failures) == 0 {
		return ""
	}
	text := ": " + failures[0].Cluster + ": " + failures[0].Message
	if more := len(failures) - 1; more > 0 {
		text += fmt.Sprintf("; %s in status.failures", plural.Count(more, "more cluster"))
	}
	return text
}

// describeProgress is the phase of the disruption, and what there is to say about it.
func (d *Decision) describeProgress(w *World, phases map[v1alpha1.NodeDisruptionRunPhase]int) {
	s, spec := &d.Status, &w.Disruption.Spec
	over := phases[v1alpha1.NodeDisruptionCompleted] + phases[v1alpha1.NodeDisruptionFailed]
	switch {
	case spec.Paused && over+phases[v1alpha1.NodeDisruptionPaused] < int(s.Clusters):
		s.Phase, s.Message = v1alpha1.NodeDisruptionPaused, fmt.Sprintf("pausing: the Nodes of %d of %d runs are restored", over+phases[v1alpha1.NodeDisruptionPaused], s.Clusters)
	case spec.Paused:
		s.Phase, s.Message = v1alpha1.NodeDisruptionPaused, "paused: the Nodes are restored. Set spec.paused to false to continue"
	case spec.DryRun && s.Clusters == 0:
		s.Phase, s.Message = v1alpha1.NodeDisruptionPending, "a dry run: status.preview lists what would be hit. Set spec.dryRun to false to start"
	case s.LastScheduleTime == nil:
		s.Phase, s.Message = v1alpha1.NodeDisruptionPending, "no runs were due yet"
	case len(d.Create) > 0:
		s.Phase, s.Message = v1alpha1.NodeDisruptionPending, "runs are made in "+plural.Count(len(d.Create), "cluster")
	case s.Clusters == 0:
		s.Phase, s.Message = v1alpha1.NodeDisruptionFailed, "no accepted cluster is chosen in which anything may start: see status.failures, correct spec.clusterSelector, the Placement or the clusters, and create the disruption again"
	case over < int(s.Clusters):
		s.Phase = v1alpha1.NodeDisruptionPending
		if phases[v1alpha1.NodeDisruptionRunning] > 0 || over > 0 {
			s.Phase = v1alpha1.NodeDisruptionRunning
		}
		s.Message = fmt.Sprintf("%d of %d runs are over", over, s.Clusters)
	default:
		d.concludeDisruption()
	}
}

// concludeDisruption is the phase of a disruption whose runs are all over, and what there is to say about it.
func (d *Decision) concludeDisruption() {
	s := &d.Status
	s.Phase = v1alpha1.NodeDisruptionCompleted
	s.Message = fmt.Sprintf("%d of %d Nodes were disrupted, %d observed, %d recovered, in %s", s.Injected, s.Selected, s.Observed, s.Recovered, plural.Count(s.Clusters, "cluster"))
	if s.Verdict == v1alpha1.DisruptionUnknown {
		s.Message += "; some expectations could not be observed, because agents were frozen or not running"
	}
	switch {
	case s.Injected == 0:
		// Whatever is expected of Nodes, nothing is shown by none.
		s.Phase, s.Message = v1alpha1.NodeDisruptionFailed, "no Node was disrupted"+firstFailure(s.Failures)
	case s.Failed > 0 && s.Verdict == "":
		s.Phase = v1alpha1.NodeDisruptionFailed
		s.Message = fmt.Sprintf("%s not disrupted as expected%s; ", plural.Were(s.Failed, "cluster"), firstFailure(s.Failures)) + s.Message
	case s.Failed > 0:
		s.Message += firstFailure(s.Failures)
	}
}
