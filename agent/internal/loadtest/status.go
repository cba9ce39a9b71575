package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/loadtest/measurement"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	measure "github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// isOver reports whether nothing of a run changes any more.
func isOver(phase v1alpha1.LoadTestRunPhase) bool {
	return phase == v1alpha1.LoadTestRunPhaseCompleted || phase == v1alpha1.LoadTestRunPhaseFailed
}

// verdictOf a run whose steps are over. One whose steps were not all done has failed, whatever was measured; what was not done in
// them, and thresholds that are not met, say nothing if the simulator was the bottleneck.
func verdictOf(status *v1alpha1.LoadTestRunStatus) v1alpha1.LoadVerdict {
	switch {
	case status.Failure != "":
		return v1alpha1.LoadMissed
	case len(status.Invalid) > 0:
		return v1alpha1.LoadInvalid
	case len(status.Shortfalls) > 0:
		return v1alpha1.LoadMissed
	case len(status.Thresholds) == 0:
		return ""
	}
	for _, result := range status.Thresholds {
		if !result.Met {
			return v1alpha1.LoadMissed
		}
	}
	return v1alpha1.LoadPassed
}

// listShortfalls say what of a load was not done although its steps are. Stuck is how many pods were not Ready for long, and lacking how many
// were not created. A threshold says how many requests may fail, or how long pods may take.
func listShortfalls(thresholds []v1alpha1.LoadThreshold, p *v1alpha1.LoadProgress, stuck, lacking int64, unready []v1alpha1.LoadUnready) []string {
	limited := func(measurements ...v1alpha1.LoadMeasurement) bool {
		return slices.ContainsFunc(thresholds, func(t v1alpha1.LoadThreshold) bool { return slices.Contains(measurements, t.Measurement) })
	}
	var list []string
	if p.Requests == 0 {
		list = append(list, "no request was made, so there was no load")
	}
	if p.Failed > 0 && !limited(v1alpha1.LoadErrors) {
		list = append(list, fmt.Sprintf("%d of %d requests failed, and no threshold of Errors says how many may", p.Failed, p.Requests))
	}
	if p.Skipped > 0 {
		list = append(list, plural.Were(p.Skipped, "request")+" not made, because there was no object for them: create enough in an earlier step")
	}
	if stuck+lacking > 0 && !limited(v1alpha1.LoadPodReady, v1alpha1.LoadPodReadyByObject) {
		text := fmt.Sprintf("%d of %d pods were never Ready in %s or more, and no threshold of PodReady says how long they may take", stuck+lacking, p.PodsCreated+lacking, measurement.NeverReadyAfter)
		if len(unready) > 0 {
			text += "; most often " + conditions.Shorten(unready[0].Reason+": "+unready[0].Message, mostNote/2)
		}
		list = append(list, text)
	}
	return list
}

// removesObjects reports whether what a run made is removed when its steps are over, and not only with the run.
func removesObjects(policy v1alpha1.LoadCleanupPolicy, status *v1alpha1.LoadTestRunStatus) bool {
	switch policy {
	case v1alpha1.LoadCleanupKeep:
		return false
	case v1alpha1.LoadCleanupDeleteOnSuccess:
		return status.Failure == "" && (status.Verdict == "" || status.Verdict == v1alpha1.LoadPassed)
	case v1alpha1.LoadCleanupDelete:
	}
	return true
}

// setPhase writes phase and message, and the conditions that follow from them.
func setPhase(run *v1alpha1.LoadTestRun, status *v1alpha1.LoadTestRunStatus, phase v1alpha1.LoadTestRunPhase, message string, now time.Time) {
	status.Phase, status.Message = phase, conditions.Shorten(message, conditions.MaxMessage)
	conditions.ConcludeLoadTest(&status.Conditions, string(phase), status.Message, run.Generation, now)
}

// summarizeRun says how a run was.
func summarizeRun(status *v1alpha1.LoadTestRunStatus) string {
	p := status.Progress
	text := fmt.Sprintf("%s, %d failed; %d of %d pods were Ready", plural.Count(p.Requests, "request"), p.Failed, p.PodsReady, p.PodsCreated)
	switch {
	case status.Failure != "":
		text = status.Failure + "; " + text
	case len(status.Invalid) > 0:
		text = "the measurements say nothing about the cluster: " + strings.Join(status.Invalid, "; ") + "; " + text
	}
	if len(status.Shortfalls) > 0 {
		text = strings.Join(status.Shortfalls, "; ") + "; " + text
	}
	if len(status.Unready) > 0 {
		first := status.Unready[0]
		text += fmt.Sprintf("; %d were never Ready because of %s: %s", first.Count, first.Reason, first.Message)
	}
	if len(status.Errors) > 0 {
		first := status.Errors[0]
		text += fmt.Sprintf("; most often %s of %s: %s", first.Reason, first.Request, first.Message)
	}
	return strings.Join(append([]string{text}, status.Notes...), "; ")
}

// reportProgress puts into a status how far the run is: with all measurements if full is set.
func (x *execution) reportProgress(run *v1alpha1.LoadTestRun, status *v1alpha1.LoadTestRunStatus, full bool) error {
	x.mu.Lock()
	phase, start := x.phase, x.start
	status.Environment = cmp.Or(x.environment, status.Environment)
	x.mu.Unlock()
	status.Progress = x.engine.currentProgress()
	if !start.IsZero() && status.StartTime == nil {
		at := metav1.NewTime(start)
		status.StartTime = &at
	}
	if full {
		if err := x.reportMeasurements(run, status); err != nil {
			return err
		}
	}
	var message string
	switch phase {
	case v1alpha1.LoadTestRunPhasePrepared:
		message = "waits for spec.startTime"
		if run.Spec.StartTime != nil {
			message = "starts at " + run.Spec.StartTime.UTC().Format(time.RFC3339)
		}
	case v1alpha1.LoadTestRunPhaseRunning:
		message = fmt.Sprintf("step %s, %d of %d done", cmp.Or(status.Progress.Step, "1"), status.Progress.Steps, status.Progress.StepsTotal)
	default:
		message = "checking the templates with the API server"
	}
	setPhase(run, status, phase, message, x.deps.Clock.Now())
	return nil
}

// reportMeasurements puts into a status what was measured until now.
func (x *execution) reportMeasurements(run *v1alpha1.LoadTestRun, status *v1alpha1.LoadTestRunStatus) error {
	var err error
	recorder := x.engine.Recorder
	status.Thresholds = recorder.EvaluateThresholds(run.Spec.Thresholds)
	status.Errors = recorder.FrequentFailures()
	simulator, _ := x.simulatorReport()
	status.Simulator = &simulator
	status.Histograms, status.Series, err = recorder.EncodeMeasurements()
	return err
}

// reportEnd puts into a status what has happened to a run that is over, all but what it made.
func (x *execution) reportEnd(run *v1alpha1.LoadTestRun, status *v1alpha1.LoadTestRunStatus) error {
	if err := x.reportProgress(run, status, true); err != nil {
		return err
	}
	if left := x.engine.Recorder.LeftOut(); left != "" {
		x.addNote(left)
	}
	if waited := x.engine.Recorder.DelayedText(mostAtOnce); waited != "" {
		x.addNote(waited)
	}
	x.mu.Lock()
	finish, failure, notes := metav1.NewTime(x.finish), x.failure, x.notes
	x.mu.Unlock()
	_, facts := x.simulatorReport()
	status.Progress.Step = ""
	status.EndTime, status.Failure = &finish, failure
	status.Invalid, status.Notes = invalidReasons(facts), notes
	status.Unready = x.engine.Pods.UnreadyReasons()
	stuck, lacking := x.engine.Pods.CountStuck()
	status.Shortfalls = listShortfalls(run.Spec.Thresholds, &status.Progress, stuck, lacking, status.Unready)
	status.Verdict = verdictOf(status)
	setPhase(run, status, v1alpha1.LoadTestRunPhaseCleaningUp, summarizeRun(status), x.deps.Clock.Now())
	return nil
}

// interruptedStatus is the status of a run that was in progress when its agent ended: with what was measured until half a minute before.
func interruptedStatus(run *v1alpha1.LoadTestRun, now time.Time) v1alpha1.LoadTestRunStatus {
	status := *run.Status.DeepCopy()
	end := metav1.NewTime(now)
	status.EndTime, status.Failure = &end, errRestarted.Error()
	if measured, err := measure.Decode(status.Histograms); err == nil {
		status.Thresholds = measure.Evaluate(run.Spec.Thresholds, measured, status.Progress.Requests, status.Progress.Failed)
	}
	status.Verdict = verdictOf(&status)
	setPhase(run, &status, v1alpha1.LoadTestRunPhaseCleaningUp, summarizeRun(&status), now)
	return status
}
