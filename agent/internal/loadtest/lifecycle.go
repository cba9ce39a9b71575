package loadtest

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// mostAttempts is how often it is started to prepare a run. That of one which is prepared, and waits for its time, is not broken off.
const mostAttempts = 2

// advanceRun does what is next for a run. Its phase, which is stored, says how far it is; a method follows it from the one to the next:
//
//	Pending          reportWaiting: its turn comes (see nextRun)
//	   │  carryOut: finalizer, then startRun
//	   ▼
//	Preparing  ◄───┐ beginAgain, if the agent was restarted: mostAttempts times
//	   │           │ execution.runToEnd: prepareRun
//	   ▼           │
//	Prepared   ────┘ awaitStart
//	   │
//	   ▼
//	Running          runSteps; followRun writes progress. After a restart: interruptedStatus
//	   │  reportEnd: the verdict
//	   ▼
//	CleaningUp       cleanUpRun, or removeRun for a run that is deleted
//	   │
//	   ▼
//	Completed        or Failed, if status.failure is set. failUnstarted: Failed at once, from Pending
//
// Preparing and Prepared end in CleaningUp too, when the run fails, is stopped or deleted, or the agent freezes.
func (c *Controller) advanceRun(ctx, life context.Context, run, first *v1alpha1.LoadTestRun, frozen string) error {
	switch {
	case run.DeletionTimestamp != nil:
		return c.removeRun(ctx, run, frozen)
	case isOver(run.Status.Phase):
		return nil
	case c.isRemoved(run):
		return c.cleanUpRun(ctx, run, frozen)
	case first != nil && run.UID == first.UID:
		return c.carryOut(ctx, life, run, frozen)
	case first != nil && c.hasTurn(run):
		return c.reportWaiting(ctx, run, first)
	}
	return nil
}

// reportWaiting says of a run what it waits for.
func (c *Controller) reportWaiting(ctx context.Context, run, first *v1alpha1.LoadTestRun) error {
	if run.Spec.Stopped {
		return c.failUnstarted(ctx, run, "stopped before it started")
	}
	status := *run.Status.DeepCopy()
	what := "which is older and not finished"
	if first.DeletionTimestamp != nil {
		what = "which is being deleted"
	}
	setPhase(run, &status, v1alpha1.LoadTestRunPhasePending, fmt.Sprintf("waiting for load test run %s, %s: a cluster carries out one at a time", first.Name, what), c.Clock.Now())
	return c.writeStatus(ctx, run, status)
}

// failUnstarted ends a run that made nothing.
func (c *Controller) failUnstarted(ctx context.Context, run *v1alpha1.LoadTestRun, why string) error {
	status := *run.Status.DeepCopy()
	status.Failure, status.Verdict = conditions.Shorten(why, mostFailure), v1alpha1.LoadMissed
	setPhase(run, &status, v1alpha1.LoadTestRunPhaseFailed, status.Failure, c.Clock.Now())
	return c.writeStatus(ctx, run, status)
}

// carryOut does what is next for the one run that continues.
func (c *Controller) carryOut(ctx, life context.Context, run *v1alpha1.LoadTestRun, frozen string) error {
	if x := c.executionOf(run.UID); x != nil {
		return c.followRun(ctx, run, x)
	}
	switch run.Status.Phase {
	case v1alpha1.LoadTestRunPhaseCleaningUp:
		return c.cleanUpRun(ctx, run, frozen)
	case v1alpha1.LoadTestRunPhaseRunning:
		if frozen != "" {
			return nil
		}
		return c.writeStatus(ctx, run, interruptedStatus(run, c.Clock.Now()))
	case v1alpha1.LoadTestRunPhasePreparing, v1alpha1.LoadTestRunPhasePrepared:
		if frozen != "" {
			return nil
		}
		return c.beginAgain(ctx, life, run)
	case v1alpha1.LoadTestRunPhasePending, v1alpha1.LoadTestRunPhaseCompleted, v1alpha1.LoadTestRunPhaseFailed:
	}
	status := *run.Status.DeepCopy()
	switch {
	case run.Spec.Stopped:
		return c.failUnstarted(ctx, run, "stopped before it started")
	case frozen != "":
		setPhase(run, &status, v1alpha1.LoadTestRunPhasePending, "the agent starts when it is unfrozen: "+frozen, c.Clock.Now())
		return c.writeStatus(ctx, run, status)
	}
	// An agent that cannot find what a run made could never remove it.
	switch _, err := c.listNamespaces(ctx, run); {
	case apierrors.IsForbidden(err):
		return c.failUnstarted(ctx, run, withRights(err).Error())
	case err != nil:
		return err
	}
	// Nothing is made before the hub knows that it is: what an agent that ends leaves behind is found by the next.
	if err := c.setFinalizer(ctx, run, true); err != nil {
		return err
	}
	status.Attempts = 1
	setPhase(run, &status, v1alpha1.LoadTestRunPhasePreparing, "checking the templates with the API server", c.Clock.Now())
	if err := c.writeStatus(ctx, run, status); err != nil {
		return err
	}
	return c.startRun(life, c.known[run.UID])
}

// beginAgain starts a run that an agent had started to prepare when it ended. One that ends every agent is not started forever.
func (c *Controller) beginAgain(ctx, life context.Context, run *v1alpha1.LoadTestRun) error {
	if c.active != nil {
		return nil
	}
	status := *run.Status.DeepCopy()
	if status.Phase != v1alpha1.LoadTestRunPhasePrepared && status.Attempts >= mostAttempts {
		end := metav1.NewTime(c.Clock.Now())
		status.EndTime, status.Verdict = &end, v1alpha1.LoadMissed
		status.Failure = fmt.Sprintf("the agent has ended %d times while it prepared the run: if it runs out of memory, make the templates smaller", status.Attempts)
		setPhase(run, &status, v1alpha1.LoadTestRunPhaseCleaningUp, status.Failure, c.Clock.Now())
		return c.writeStatus(ctx, run, status)
	}
	if status.Phase != v1alpha1.LoadTestRunPhasePrepared { // Of one that is prepared nothing was broken off: it has waited for its time.
		status.Attempts++
	}
	setPhase(run, &status, v1alpha1.LoadTestRunPhasePreparing, "checking the templates with the API server again, because the agent was restarted", c.Clock.Now())
	if err := c.writeStatus(ctx, run, status); err != nil {
		return err
	}
	return c.startRun(life, c.known[run.UID])
}

// startRun starts to carry a run out in this process.
func (c *Controller) startRun(life context.Context, run *v1alpha1.LoadTestRun) error {
	if c.active != nil {
		// A run that has vanished is ending.
		return nil
	}
	x, err := startExecution(life, c.Deps, run.DeepCopy())
	if err != nil {
		return err
	}
	c.active = x
	c.written.progress, c.written.measurements = c.Clock.Now(), c.Clock.Now()
	return nil
}

// followRun takes on to a run that continues what its user wants now, and writes how far it is.
func (c *Controller) followRun(ctx context.Context, run *v1alpha1.LoadTestRun, x *execution) error {
	if run.Spec.Stopped {
		x.end(errStopped)
	}
	if run.Spec.StartTime != nil {
		x.startAt(run.Spec.StartTime.Time)
	}
	status := *run.Status.DeepCopy()
	if x.isOver() {
		if err := x.reportEnd(run, &status); err != nil {
			return err
		}
		if err := c.writeStatus(ctx, run, status); err != nil {
			return err
		}
		c.active = nil
		return nil
	}
	now := c.Clock.Now()
	full := now.Sub(c.written.measurements) >= measurementPeriod
	if err := x.reportProgress(run, &status, full); err != nil {
		return err
	}
	if status.Phase == run.Status.Phase && !full && now.Sub(c.written.progress) < progressPeriod {
		return nil
	}
	c.written.progress = now
	if full {
		c.written.measurements = now
	}
	return c.writeStatus(ctx, run, status)
}

// endVanished ends the run that continues if the hub does not have it any more, or has it as one that is over, because another agent
// worked for the cluster meanwhile. Only a run that is deleted is cleaned up: that one is
// not there is no order to remove anything. Its namespaces stay, with its label.
func (c *Controller) endVanished() {
	if c.active == nil || c.listed == nil {
		return
	}
	run := c.active.engine.run.UID
	if known := c.known[run]; c.listed[run] && (known == nil || !isOver(known.Status.Phase)) {
		return
	}
	c.active.end(errVanished)
	if !c.active.isOver() {
		return
	}
	if !c.listed[run] {
		c.Log.Info("Keeping the namespaces of a load test run that has disappeared from the hub without being deleted", "label", v1alpha1.LoadTestRunUIDLabel+"="+string(run))
	}
	c.active = nil
}
