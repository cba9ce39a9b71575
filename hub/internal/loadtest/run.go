package loadtest

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// prepareRuns waits until all runs are prepared, or prepareTimeout is over, and lets those that are start together.
func (d *Decision) prepareRuns(w *view, runs []*v1alpha1.LoadTestRun) {
	var ready, waiting []*v1alpha1.LoadTestRun
	begun := time.Time{}
	for _, run := range runs {
		if run.Spec.StartTime != nil { // The hub was interrupted while it told them.
			begun = run.Spec.StartTime.Time
		}
		switch {
		case isOver(run):
		case run.Status.Phase == v1alpha1.LoadTestRunPhasePrepared && w.WhyNotStart(run.Namespace) == "":
			ready = append(ready, run)
		default:
			waiting = append(waiting, run)
		}
	}
	deadline := d.Status.PrepareTime.Add(w.Test.Spec.PrepareTimeout.Duration)
	switch {
	case w.Test.Spec.Stopped && begun.IsZero():
		d.stopRuns(runs)
		d.summarizeRuns(w, runs)
		d.setPhase(v1alpha1.LoadTestPhaseFailed, "it was stopped before it had started")
	case begun.IsZero() && len(waiting) > 0 && w.Now.Before(deadline):
		d.noLaterThan(deadline)
		d.summarizeRuns(w, runs)
		d.setPhase(v1alpha1.LoadTestPhasePreparing, "%d of %d runs are prepared", len(ready), len(runs))
	case begun.IsZero() && len(ready) == 0:
		d.late = true
		d.stopRuns(runs)
		d.summarizeRuns(w, runs)
		d.setPhase(v1alpha1.LoadTestPhaseFailed, "it could not be started in any of %d clusters: see status.failures", d.Status.Clusters)
	default:
		if begun.IsZero() {
			begun = w.Now.Add(startLead + time.Duration(len(ready))*leadPerRun)
		}
		// The API server keeps whole seconds.
		d.Status.StartTime, d.Status.Phase = new(metav1.NewTime(begun.Truncate(time.Second))), v1alpha1.LoadTestPhaseRunning
		d.startRuns(w, runs)
	}
}

// startRuns lets the runs start that were prepared when the time of the beginning was set, and waits until nothing is measured any more.
func (d *Decision) startRuns(w *view, runs []*v1alpha1.LoadTestRun) {
	going := 0
	d.late = true
	soon := !w.Now.After(d.Status.StartTime.Add(lateStart)) && !w.Test.Spec.Stopped
	for _, run := range runs {
		switch {
		case isMeasured(run):
		case run.Spec.StartTime == nil && soon && !run.Spec.Stopped && run.Status.Phase == v1alpha1.LoadTestRunPhasePrepared && w.WhyNotStart(run.Namespace) == "":
			d.Start = append(d.Start, run)
			going++
		case run.Spec.StartTime == nil:
			d.stopRuns([]*v1alpha1.LoadTestRun{run}) // It has nothing to measure, so it is not waited for.
		case d.explainLost(w, run) == "":
			going++
		}
	}
	if w.Test.Spec.Stopped {
		d.stopRuns(runs)
		d.pauseDisruptions(w)
	} else if w.hasDisruption() {
		d.createDisruptions(w, runs, soon)
	}
	d.summarizeRuns(w, runs)
	d.setPhase(v1alpha1.LoadTestPhaseRunning, "%d of %d runs are in progress", going, len(runs))
	if w.Test.Spec.Stopped {
		d.Status.Message = "stopped: " + d.Status.Message
	}
	d.Merge = going == 0
}

// explainLost says why a run that is not over is not waited for; empty if it is. What it has measured so far counts.
func (d *Decision) explainLost(w *view, run *v1alpha1.LoadTestRun) string {
	cluster := w.Named(run.Namespace)
	if cluster == nil {
		return "its Cluster is gone"
	}
	if since := disconnectedSince(cluster); !since.IsZero() {
		if !w.Now.Before(since.Add(lostAfter)) {
			return fmt.Sprintf("its agent was lost at %s: its reports until then count", since.UTC().Format(time.RFC3339))
		}
		d.noLaterThan(since.Add(lostAfter))
	}
	deadline := d.Status.StartTime.Add(run.Spec.Timeout.Duration + lostAfter)
	if !w.Now.Before(deadline) {
		return fmt.Sprintf("it was not over %s after its timeout: its reports until then count", lostAfter)
	}
	d.noLaterThan(deadline)
	return ""
}

// createDisruptions adds the NodeDisruptionRuns beside runs that have started. Later they would hit another part of the load than in the
// other clusters.
func (d *Decision) createDisruptions(w *view, runs []*v1alpha1.LoadTestRun, soon bool) {
	if !soon {
		return
	}
	for _, run := range runs {
		cluster := w.Named(run.Namespace)
		if run.Spec.StartTime == nil || isMeasured(run) || cluster == nil || w.disruptions[run.Namespace] != nil {
			continue
		}
		_, wanted, err := w.loadFor(cluster)
		if err != nil || wanted == nil {
			continue // The Nodes are gone since the run was made. A disruption that is missing is a failure.
		}
		beside := v1alpha1.NodeDisruptionRun{ObjectMeta: parentOf(w.Test).NewMeta(run.Namespace, w.Test.Name+disruptionSuffix)}
		beside.Spec.Disruption = *wanted
		d.Disrupt = append(d.Disrupt, beside)
	}
}

// pauseDisruptions pauses the NodeDisruptionRuns that are not over. They are kept: a report shows when Nodes failed.
func (d *Decision) pauseDisruptions(w *view) {
	for i := range w.Disruptions {
		beside := &w.Disruptions[i]
		if parentOf(w.Test).OwnerOf(beside) == fanout.Ours && beside.DecodeError == "" && !beside.Spec.Paused &&
			beside.Status.Phase != v1alpha1.NodeDisruptionCompleted && beside.Status.Phase != v1alpha1.NodeDisruptionFailed {
			d.Restore = append(d.Restore, beside)
		}
	}
}

// awaitCleanup waits until the runs have removed what they made, or are not waited for any longer.
func (d *Decision) awaitCleanup(w *view, runs []*v1alpha1.LoadTestRun) {
	d.pauseDisruptions(w)
	deadline := d.Status.EndTime.Add(cleanupTimeout)
	cleaning, given := 0, 0
	for _, run := range runs {
		if isOver(run) || !isMeasured(run) {
			continue
		}
		cluster := w.Named(run.Namespace)
		due := deadline
		if cluster == nil {
			due = w.Now
		} else if since := disconnectedSince(cluster); !since.IsZero() && since.Add(lostAfter).Before(due) {
			due = since.Add(lostAfter)
		}
		if w.Now.Before(due) {
			d.noLaterThan(due)
			cleaning++
		} else {
			given++
		}
	}
	d.stopRuns(runs)
	if cleaning > 0 {
		d.setPhase(v1alpha1.LoadTestPhaseCleaningUp, "%s. %d of %d clusters are being cleaned up", d.describeOutcome(), cleaning, len(runs))
		return
	}
	d.Next = time.Time{}
	d.setPhase(v1alpha1.LoadTestPhaseCompleted, "%s", d.describeOutcome())
	if given > 0 {
		d.Status.Message += fmt.Sprintf(". In %s the agent has not reported yet that the objects are removed", plural.Count(given, "cluster"))
	}
}
