package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// stuckAfter is how long the removal of a namespace may take until the message names it.
const stuckAfter = 5 * time.Minute

// leftovers are the namespaces of a run that are there.
type leftovers []corev1.Namespace

// listNamespaces are those that a run made. A label alone is no proof: anyone can copy it to a namespace of another name.
func (c *Controller) listNamespaces(ctx context.Context, run *v1alpha1.LoadTestRun) (leftovers, error) {
	list, err := c.Target.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LoadTestRunUIDLabel + "=" + string(run.UID)})
	if err != nil {
		return nil, fmt.Errorf("listing the namespaces of the run: %w", err)
	}
	return slices.DeleteFunc(leftovers(list.Items), func(namespace corev1.Namespace) bool {
		for n := range namespaceCount(run) {
			if namespace.Name == namespaceName(run, n) {
				return false
			}
		}
		return true
	}), nil
}

// cleanUp asks for the removal of all namespaces of a run, and of nothing else, and returns those that are still there.
func (c *Controller) cleanUp(ctx context.Context, run *v1alpha1.LoadTestRun) (leftovers, error) {
	made, err := c.listNamespaces(ctx, run)
	if err != nil {
		return nil, withRights(err)
	}
	var problems []error
	for i := range made {
		namespace := &made[i]
		if namespace.DeletionTimestamp != nil {
			continue
		}
		// A namespace of that name that was made since is not the run's.
		err := c.Target.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(namespace.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			problems = append(problems, withRights(fmt.Errorf("removing namespace %s: %w", namespace.Name, err)))
		}
	}
	return made, errors.Join(problems...)
}

// String says what is left.
func (l leftovers) String(now time.Time) string {
	for i := range l {
		if at := l[i].DeletionTimestamp; at != nil && now.Sub(at.Time) > stuckAfter {
			return fmt.Sprintf("namespace %s is not removed after %s: %s", l[i].Name, now.Sub(at.Time).Truncate(time.Minute), explainTerminating(&l[i]))
		}
	}
	if len(l) == 1 {
		return "1 namespace is being removed"
	}
	return fmt.Sprintf("%d namespaces are being removed", len(l))
}

// explainTerminating says what keeps a namespace, as its controller has found.
func explainTerminating(namespace *corev1.Namespace) string {
	var reasons []string
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			reasons = append(reasons, condition.Message)
		}
	}
	if len(reasons) == 0 {
		return "its controller does not say why"
	}
	return strings.Join(reasons, "; ")
}

// cleanUpRun removes what a run made whose steps are over, as far as it is to be removed.
func (c *Controller) cleanUpRun(ctx context.Context, run *v1alpha1.LoadTestRun, frozen string) error {
	status := *run.Status.DeepCopy()
	end := v1alpha1.LoadTestRunPhaseCompleted
	if status.Failure != "" {
		end = v1alpha1.LoadTestRunPhaseFailed
	}
	if !removesObjects(run.Spec.CleanupPolicy, &status) {
		setPhase(run, &status, end, summarizeRun(&status)+"; its objects are kept until the run is deleted", c.Clock.Now())
		return c.writeStatus(ctx, run, status)
	}
	if frozen != "" {
		setPhase(run, &status, v1alpha1.LoadTestRunPhaseCleaningUp, "the objects of the run are removed when the agent is unfrozen: "+frozen, c.Clock.Now())
		return c.writeStatus(ctx, run, status)
	}
	left, err := c.cleanUp(ctx, run)
	switch {
	case err != nil:
		setPhase(run, &status, v1alpha1.LoadTestRunPhaseCleaningUp, err.Error(), c.Clock.Now())
	case len(left) > 0:
		setPhase(run, &status, v1alpha1.LoadTestRunPhaseCleaningUp, left.String(c.Clock.Now()), c.Clock.Now())
	default:
		setPhase(run, &status, end, summarizeRun(&status), c.Clock.Now())
		if err := c.writeStatus(ctx, run, status); err != nil {
			return err
		}
		// Nothing is left that a deletion would have to wait for.
		return c.setFinalizer(ctx, c.known[run.UID], false)
	}
	return c.writeStatus(ctx, run, status)
}

// removeRun ends a run that is deleted, and lets it go when what it made is gone.
func (c *Controller) removeRun(ctx context.Context, run *v1alpha1.LoadTestRun, frozen string) error {
	if x := c.executionOf(run.UID); x != nil {
		x.end(errDeleted)
		return c.followRun(ctx, run, x)
	}
	if !controllerutil.ContainsFinalizer(run, v1alpha1.LoadTestRunFinalizer) {
		return nil
	}
	status := *run.Status.DeepCopy()
	phase := status.Phase
	if !isOver(phase) {
		phase = v1alpha1.LoadTestRunPhaseCleaningUp
	}
	if frozen != "" {
		setPhase(run, &status, phase, "the objects of the run are removed when the agent is unfrozen: "+frozen, c.Clock.Now())
		return c.writeStatus(ctx, run, status)
	}
	left, err := c.cleanUp(ctx, run)
	switch {
	case err != nil:
		setPhase(run, &status, phase, err.Error(), c.Clock.Now())
	case len(left) > 0:
		setPhase(run, &status, phase, left.String(c.Clock.Now()), c.Clock.Now())
	default:
		return c.setFinalizer(ctx, run, false)
	}
	return c.writeStatus(ctx, run, status)
}
