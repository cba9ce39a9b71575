package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// readRuns returns the runs, the oldest first. It lists metadata, and reads only those runs that have changed: a run that is over has
// hundreds of kilobytes of measurements. What concerns single runs stops no other one.
func (c *Controller) readRuns(ctx context.Context) ([]*v1alpha1.LoadTestRun, []error, error) {
	c.version = ""
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LoadTestRunList"))
	switch err := c.Hub.Live.List(ctx, list, client.InNamespace(c.Hub.Namespace)); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		// A hub of an earlier release has no load tests. This is no list without runs: what continues continues.
		c.listed = nil
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("listing load test runs: %w", err)
	}
	there := map[types.UID]*v1alpha1.LoadTestRun{}
	c.listed = map[types.UID]bool{}
	var runs []*v1alpha1.LoadTestRun
	var problems []error
	for i := range list.Items {
		header := &list.Items[i]
		c.listed[header.UID] = true
		run := c.known[header.UID]
		if run == nil || run.ResourceVersion != header.ResourceVersion {
			run = &v1alpha1.LoadTestRun{}
			err := c.Hub.Live.Get(ctx, client.ObjectKeyFromObject(header), run)
			if err == nil {
				err = undecodable.Check(run)
			}
			if client.IgnoreNotFound(err) != nil {
				problems = append(problems, fmt.Errorf("reading load test run %s: %w", header.Name, err))
				// What was known of it continues to be so: it is not deleted.
				if run = c.known[header.UID]; run == nil {
					continue
				}
			} else if err != nil || run.UID != header.UID {
				continue
			}
			forgetMeasurements(run)
		}
		there[run.UID] = run
		runs = append(runs, run)
	}
	c.known = there
	slices.SortFunc(runs, func(a, b *v1alpha1.LoadTestRun) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	c.version = list.ResourceVersion
	return runs, problems, nil
}

// forgetMeasurements leaves out what nothing is going to be written of.
func forgetMeasurements(run *v1alpha1.LoadTestRun) {
	if isOver(run.Status.Phase) && run.DeletionTimestamp == nil {
		run.Status.Histograms, run.Status.Series = nil, nil
	}
}

// nextRun is the run that continues here, or else the oldest that is not over. One that is being deleted is over when what it made is
// gone. An older one may turn up while a run continues, because it could not be read before, or has the same time and another name.
func (c *Controller) nextRun(runs []*v1alpha1.LoadTestRun) *v1alpha1.LoadTestRun {
	for _, run := range runs {
		if c.executionOf(run.UID) != nil && !isOver(run.Status.Phase) {
			return run
		}
	}
	for _, run := range runs {
		if !isOver(run.Status.Phase) && c.hasTurn(run) && (run.DeletionTimestamp == nil || controllerutil.ContainsFinalizer(run, v1alpha1.LoadTestRunFinalizer)) {
			return run
		}
	}
	return nil
}

// writeStatus writes a status if it has changed.
func (c *Controller) writeStatus(ctx context.Context, run *v1alpha1.LoadTestRun, status v1alpha1.LoadTestRunStatus) error {
	if equality.Semantic.DeepEqual(run.Status, status) {
		return nil
	}
	changed := run.DeepCopy()
	changed.Status = status
	// Another agent may have taken the run over in the meantime: what it wrote must not be replaced.
	if err := c.Hub.Status().Patch(ctx, changed, reconciler.MergeFromWithLock(run)); err != nil {
		delete(c.known, run.UID)
		return fmt.Errorf("writing the status: %w", err)
	}
	c.rememberRun(changed)
	return nil
}

// setFinalizer adds or removes the finalizer.
func (c *Controller) setFinalizer(ctx context.Context, run *v1alpha1.LoadTestRun, wanted bool) error {
	changed := run.DeepCopy()
	if wanted && !controllerutil.AddFinalizer(changed, v1alpha1.LoadTestRunFinalizer) || !wanted && !controllerutil.RemoveFinalizer(changed, v1alpha1.LoadTestRunFinalizer) {
		return nil
	}
	// A list of finalizers is replaced as a whole: that of another client must not be lost.
	if err := c.Hub.Patch(ctx, changed, reconciler.MergeFromWithLock(run)); err != nil {
		delete(c.known, run.UID)
		return fmt.Errorf("writing the finalizer: %w", err)
	}
	c.rememberRun(changed)
	changed.DeepCopyInto(run)
	return nil
}

// rememberRun remembers a run as it was answered.
func (c *Controller) rememberRun(run *v1alpha1.LoadTestRun) {
	forgetMeasurements(run)
	c.known[run.UID] = run
}

const (
	// removalTurn is how long the removal of what a run made keeps the next run waiting. It is shorter than the default prepareTimeout
	// of a LoadTest.
	removalTurn = 30 * time.Second
	// refusedPause is how long a run that the hub refuses to have written is passed over.
	refusedPause = time.Minute
)

// turns is what keeps a run from being the next although it is not over.
type turns struct {
	// removing is since when this agent has been removing what a run made.
	removing map[types.UID]time.Time
	// refused is when the hub refused a change of a run: a stricter schema may have come since it was created.
	refused map[types.UID]time.Time
}

// hasTurn reports whether a run that is not over may keep others waiting.
func (c *Controller) hasTurn(run *v1alpha1.LoadTestRun) bool {
	now := c.Clock.Now()
	if at, is := c.turns.refused[run.UID]; is && now.Sub(at) < refusedPause {
		return false
	}
	since, is := c.turns.removing[run.UID]
	return !is || now.Sub(since) < c.removalTurn
}

// isRemoved reports whether only what a run made has to be removed.
func (c *Controller) isRemoved(run *v1alpha1.LoadTestRun) bool {
	return c.executionOf(run.UID) == nil && (run.DeletionTimestamp != nil || run.Status.Phase == v1alpha1.LoadTestRunPhaseCleaningUp)
}

// noteTurns remembers for the next rounds what holds runs back. Runs that are gone are forgotten.
func (c *Controller) noteTurns(runs []*v1alpha1.LoadTestRun) {
	removing, refused := map[types.UID]time.Time{}, map[types.UID]time.Time{}
	for _, run := range runs {
		if at, is := c.turns.refused[run.UID]; is {
			refused[run.UID] = at
		}
		if c.isRemoved(run) {
			since, is := c.turns.removing[run.UID]
			if !is {
				since = c.Clock.Now()
			}
			removing[run.UID] = since
		}
	}
	c.turns = turns{removing: removing, refused: refused}
}

// passOver lets the next run have its turn if the hub refuses for good to have this one written.
func (c *Controller) passOver(run *v1alpha1.LoadTestRun, err error) {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		c.turns.refused[run.UID] = c.Clock.Now()
	}
}

// isUnsettled reports whether there is something to do for a run although it is not its turn.
func (c *Controller) isUnsettled(run *v1alpha1.LoadTestRun) bool {
	_, isRefused := c.turns.refused[run.UID]
	return isRefused || c.isRemoved(run)
}
