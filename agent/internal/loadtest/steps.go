package loadtest

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
)

// mostAttempts is how often it is begun to prepare a run. That of one which is prepared, and waits for its time, is not broken off.
const mostAttempts = 2

// postpone says of a run what it waits for.
func (c *Controller) postpone(ctx context.Context, run, first *v1alpha1.LoadTestRun) error {
	if run.Spec.Stopped {
		return c.neverBegun(ctx, run, "stopped before it began")
	}
	status := *run.Status.DeepCopy()
	what := "which is older and not over"
	if first.DeletionTimestamp != nil {
		what = "which is being deleted"
	}
	set(run, &status, v1alpha1.LoadTestPending, fmt.Sprintf("waits for load test run %s, %s: one at a time is carried out in a cluster", first.Name, what), c.Clock.Now())
	return c.write(ctx, run, status)
}

// neverBegun ends a run that made nothing.
func (c *Controller) neverBegun(ctx context.Context, run *v1alpha1.LoadTestRun, why string) error {
	status := *run.Status.DeepCopy()
	status.Failure, status.Verdict = conditions.Shorten(why, mostFailure), v1alpha1.LoadMissed
	set(run, &status, v1alpha1.LoadTestFailed, status.Failure, c.Clock.Now())
	return c.write(ctx, run, status)
}

// carryOut does what is next for the one run that goes on.
func (c *Controller) carryOut(ctx, life context.Context, run *v1alpha1.LoadTestRun, frozen string) error {
	if x := c.running(run.UID); x != nil {
		return c.follow(ctx, run, x)
	}
	switch run.Status.Phase {
	case v1alpha1.LoadTestCleaningUp:
		return c.finish(ctx, run, frozen)
	case v1alpha1.LoadTestRunning:
		if frozen != "" {
			return nil
		}
		return c.write(ctx, run, interrupted(run, c.Clock.Now()))
	case v1alpha1.LoadTestPreparing, v1alpha1.LoadTestPrepared:
		if frozen != "" {
			return nil
		}
		return c.beginAgain(ctx, life, run)
	case v1alpha1.LoadTestPending, v1alpha1.LoadTestCompleted, v1alpha1.LoadTestFailed:
	}
	status := *run.Status.DeepCopy()
	switch {
	case run.Spec.Stopped:
		return c.neverBegun(ctx, run, "stopped before it began")
	case frozen != "":
		set(run, &status, v1alpha1.LoadTestPending, "the agent begins when it thaws: "+frozen, c.Clock.Now())
		return c.write(ctx, run, status)
	}
	// An agent that cannot find what a run made could never remove it.
	switch _, err := c.namespaces(ctx, run); {
	case apierrors.IsForbidden(err):
		return c.neverBegun(ctx, run, withRights(err).Error())
	case err != nil:
		return err
	}
	// Nothing is made before the hub knows that it is: what an agent that ends leaves behind is found by the next.
	if err := c.setFinalizer(ctx, run, true); err != nil {
		return err
	}
	status.Attempts = 1
	set(run, &status, v1alpha1.LoadTestPreparing, "the templates are tried with the API server", c.Clock.Now())
	if err := c.write(ctx, run, status); err != nil {
		return err
	}
	return c.begin(life, c.known[run.UID])
}

// beginAgain begins a run that an agent had begun to prepare when it ended. One that ends every agent is not begun for ever.
func (c *Controller) beginAgain(ctx, life context.Context, run *v1alpha1.LoadTestRun) error {
	if c.active != nil {
		return nil
	}
	status := *run.Status.DeepCopy()
	if status.Phase != v1alpha1.LoadTestPrepared && status.Attempts >= mostAttempts {
		end := metav1.NewTime(c.Clock.Now())
		status.EndTime, status.Verdict = &end, v1alpha1.LoadMissed
		status.Failure = fmt.Sprintf("the agent has ended %d times while it prepared the run: if it runs out of memory, make the templates smaller", status.Attempts)
		set(run, &status, v1alpha1.LoadTestCleaningUp, status.Failure, c.Clock.Now())
		return c.write(ctx, run, status)
	}
	if status.Phase != v1alpha1.LoadTestPrepared { // Of one that is prepared nothing was broken off: it has waited for its time.
		status.Attempts++
	}
	set(run, &status, v1alpha1.LoadTestPreparing, "the templates are tried with the API server, again because the agent was restarted", c.Clock.Now())
	if err := c.write(ctx, run, status); err != nil {
		return err
	}
	return c.begin(life, c.known[run.UID])
}

// begin begins to carry a run out in this process.
func (c *Controller) begin(life context.Context, run *v1alpha1.LoadTestRun) error {
	if c.active != nil {
		// A run that has vanished is ending.
		return nil
	}
	x, err := execute(life, c.Deps, run.DeepCopy())
	if err != nil {
		return err
	}
	c.active = x
	c.written.progress, c.written.measurements = c.Clock.Now(), c.Clock.Now()
	return nil
}

// follow takes on to a run that goes on what its user wants now, and writes how far it is.
func (c *Controller) follow(ctx context.Context, run *v1alpha1.LoadTestRun, x *execution) error {
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
		if err := c.write(ctx, run, status); err != nil {
			return err
		}
		c.active = nil
		return nil
	}
	now := c.Clock.Now()
	full := now.Sub(c.written.measurements) >= measurementPeriod
	if err := x.report(run, &status, full); err != nil {
		return err
	}
	if status.Phase == run.Status.Phase && !full && now.Sub(c.written.progress) < progressPeriod {
		return nil
	}
	c.written.progress = now
	if full {
		c.written.measurements = now
	}
	return c.write(ctx, run, status)
}

// finish removes what a run made whose steps are over, as far as it is to be removed.
func (c *Controller) finish(ctx context.Context, run *v1alpha1.LoadTestRun, frozen string) error {
	status := *run.Status.DeepCopy()
	end := v1alpha1.LoadTestCompleted
	if status.Failure != "" {
		end = v1alpha1.LoadTestFailed
	}
	if !removes(run.Spec.CleanupPolicy, &status) {
		set(run, &status, end, summary(&status)+"; what it made is kept until the run is deleted", c.Clock.Now())
		return c.write(ctx, run, status)
	}
	if frozen != "" {
		set(run, &status, v1alpha1.LoadTestCleaningUp, "what the run made is removed when the agent thaws: "+frozen, c.Clock.Now())
		return c.write(ctx, run, status)
	}
	left, err := c.cleanUp(ctx, run)
	switch {
	case err != nil:
		set(run, &status, v1alpha1.LoadTestCleaningUp, err.Error(), c.Clock.Now())
	case len(left) > 0:
		set(run, &status, v1alpha1.LoadTestCleaningUp, left.String(c.Clock.Now()), c.Clock.Now())
	default:
		set(run, &status, end, summary(&status), c.Clock.Now())
		if err := c.write(ctx, run, status); err != nil {
			return err
		}
		// Nothing is left that a deletion would have to wait for.
		return c.setFinalizer(ctx, c.known[run.UID], false)
	}
	return c.write(ctx, run, status)
}

// remove ends a run that is deleted, and lets it go when what it made is gone.
func (c *Controller) remove(ctx context.Context, run *v1alpha1.LoadTestRun, frozen string) error {
	if x := c.running(run.UID); x != nil {
		x.end(errDeleted)
		return c.follow(ctx, run, x)
	}
	if !controllerutil.ContainsFinalizer(run, v1alpha1.LoadTestRunFinalizer) {
		return nil
	}
	status := *run.Status.DeepCopy()
	phase := status.Phase
	if !over(phase) {
		phase = v1alpha1.LoadTestCleaningUp
	}
	if frozen != "" {
		set(run, &status, phase, "what the run made is removed when the agent thaws: "+frozen, c.Clock.Now())
		return c.write(ctx, run, status)
	}
	left, err := c.cleanUp(ctx, run)
	switch {
	case err != nil:
		set(run, &status, phase, err.Error(), c.Clock.Now())
	case len(left) > 0:
		set(run, &status, phase, left.String(c.Clock.Now()), c.Clock.Now())
	default:
		return c.setFinalizer(ctx, run, false)
	}
	return c.write(ctx, run, status)
}

// endVanished ends the run that goes on if the hub does not have it any more, or has it as one that is over, because another agent
// worked for the cluster meanwhile. Only a run that is deleted is cleaned up: that one is
// not there is no order to remove anything. Its namespaces stay, with its label.
func (c *Controller) endVanished() {
	if c.active == nil || c.listed == nil {
		return
	}
	run := c.active.engine.run.UID
	if known := c.known[run]; c.listed[run] && (known == nil || !over(known.Status.Phase)) {
		return
	}
	c.active.end(errVanished)
	if !c.active.isOver() {
		return
	}
	if !c.listed[run] {
		c.Log.Info("Leaving the namespaces of a load test run that is gone from the hub without having been deleted", "label", v1alpha1.LoadTestRunUIDLabel+"="+string(run))
	}
	c.active = nil
}
