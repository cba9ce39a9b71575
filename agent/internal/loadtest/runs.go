package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
