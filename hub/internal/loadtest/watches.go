package loadtest

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const (
	// nameField is the field by which runs are listed: all those of one test have its name.
	nameField = "metadata.name"
	// progressPeriod is how long progress of runs may wait to be summed up. Hundreds of agents write some every few seconds.
	progressPeriod = 2 * time.Second
)

// Shrink is a transform of the hub's cache: it leaves out of a run what only a report or the merging of histograms needs, and what
// only its agent does.
func Shrink(object any) (any, error) {
	run, is := object.(*v1alpha1.LoadTestRun)
	if !is {
		return object, nil
	}
	run.ManagedFields = nil
	run.Spec.Templates, run.Spec.Steps = nil, nil
	run.Status.Histograms, run.Status.Series, run.Status.Errors, run.Status.Thresholds = nil, nil, nil, nil
	return run, nil
}

// SetupWithManager registers the controller.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	name := func(object client.Object) []string { return []string{object.GetName()} }
	for _, kind := range []client.Object{&v1alpha1.LoadTestRun{}, &v1alpha1.NodeDisruptionRun{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), kind, nameField, name); err != nil {
			return fmt.Errorf("indexing runs by name: %w", err)
		}
	}
	connection := reconciler.Changed(func(cluster *v1alpha1.Cluster) any {
		return meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)
	})
	err := c.Placements.Watch(ctrl.NewControllerManagedBy(mgr), c.ofPlacement).
		For(&v1alpha1.LoadTest{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.LoadTestRun{}, ofRuns()).
		Watches(&v1alpha1.NodeDisruptionRun{}, handler.EnqueueRequestsFromMapFunc(ofDisruption)).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(predicate.Or(freeze.ClusterChanged(), connection))).
		WithOptions(options).
		Complete(reconciler.New(mgr.GetClient(), mgr.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting the load test controller up: %w", err)
	}
	return nil
}

// ofRuns wakes the test of a run's name: the run is that test's, or in its way. What only tells of progress waits, so that it is
// summed up with that of the other runs.
func ofRuns() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	request := func(run client.Object) reconcile.Request { return reconciler.Request("", run.GetName()) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { q.Add(request(e.Object)) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { q.Add(request(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*v1alpha1.LoadTestRun)
			after, is := e.ObjectNew.(*v1alpha1.LoadTestRun)
			if ok && is && onlyProgress(before, after) {
				q.AddAfter(request(after), progressPeriod)
				return
			}
			q.Add(request(e.ObjectNew))
		},
	}
}

// onlyProgress reports whether two states of a run lead to the same decision.
func onlyProgress(before, after *v1alpha1.LoadTestRun) bool {
	facts := func(run *v1alpha1.LoadTestRun) any {
		return []any{
			run.Generation, run.Labels, run.OwnerReferences, run.DeletionTimestamp, run.DecodeError,
			run.Status.Phase, run.Status.Failure, run.Status.Verdict, run.Status.EndTime,
		}
	}
	return reflect.DeepEqual(facts(before), facts(after))
}

// ofDisruption is the test that a NodeDisruptionRun is beside of.
func ofDisruption(_ context.Context, run client.Object) []reconcile.Request {
	if owner := metav1.GetControllerOf(run); owner != nil && owner.Kind == "LoadTest" {
		return []reconcile.Request{reconciler.Request("", owner.Name)}
	}
	return nil
}

// ofCluster are the tests that are not over: a change of a cluster may concern any of them.
func (c *Controller) ofCluster(ctx context.Context, _ client.Object) []reconcile.Request {
	return c.openTests(ctx, func(*v1alpha1.LoadTest) bool { return true })
}

// ofPlacement are those that refer to a Placement.
func (c *Controller) ofPlacement(ctx context.Context, changed v1alpha1.PlacementReference) []reconcile.Request {
	return c.openTests(ctx, func(test *v1alpha1.LoadTest) bool { return presence.Concerns(changed, test.Spec.PlacementRef) })
}

// openTests are the tests that are not over and are wanted.
func (c *Controller) openTests(ctx context.Context, wanted func(*v1alpha1.LoadTest) bool) []reconcile.Request {
	list := &v1alpha1.LoadTestList{}
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing load tests to wake")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		test := &list.Items[i]
		if phase := test.Status.Phase; phase != v1alpha1.LoadTestPhaseCompleted && phase != v1alpha1.LoadTestPhaseFailed && wanted(test) {
			requests = append(requests, reconciler.Request("", test.Name))
		}
	}
	return requests
}
