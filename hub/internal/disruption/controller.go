package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fanout"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters;nodedisruptions,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=nodedisruptions,verbs=delete
// +kubebuilder:rbac:groups=hollowfleet.io,resources=nodedisruptions/status,verbs=patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=nodedisruptionruns,verbs=get;list;watch;create;patch;delete

// Deps is what the controller needs. All of it is required.
type Deps struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client     client.Client
	Live       client.Reader
	Placements *presence.Kinds
	Clock      clock.PassiveClock
}

// Controller keeps the runs of NodeDisruptions.
type Controller struct{ Deps }

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Client == nil || deps.Live == nil || deps.Placements == nil || deps.Clock == nil {
		return nil, errors.New("making the disruption controller: a dependency is missing")
	}
	return &Controller{Deps: deps}, nil
}

// Status implements reconciler.Logic.
func (c *Controller) Status(disruption *v1alpha1.NodeDisruption) any { return &disruption.Status }

// Reconcile implements reconciler.Logic. The time for which runs are made is noted when all of them are there.
func (c *Controller) Reconcile(ctx context.Context, disruption *v1alpha1.NodeDisruption) (reconciler.Next, error) {
	if disruption.DeletionTimestamp != nil {
		return reconciler.Next{}, nil
	}
	world := World{Now: c.Clock.Now(), Disruption: disruption}
	expiry := expiresAt(disruption)
	if !expiry.IsZero() && !world.Now.Before(expiry) {
		return reconciler.Next{}, c.expireDryRun(ctx, disruption)
	}
	runs := &v1alpha1.NodeDisruptionRunList{}
	err := c.Client.List(ctx, runs, client.MatchingLabels{v1alpha1.NodeDisruptionNameLabel: disruption.Name})
	if err == nil {
		clusters := client.Reader(c.Client)
		if disruption.Status.Phase == "" || disruption.Status.Phase == v1alpha1.NodeDisruptionPending {
			clusters = c.Live // Labels that were written before it count.
		}
		world.Selection, err = fanout.Observe(ctx, clusters, c.Placements.Cached, disruption.Spec.PlacementRef)
	}
	if err != nil {
		return reconciler.Next{}, fmt.Errorf("reading clusters and runs: %w", err)
	}
	for _, run := range runs.Items {
		if metav1.IsControlledBy(&run, disruption) {
			world.Runs = append(world.Runs, run)
		}
	}
	decision := Decide(&world)
	before := disruption.Status.LastScheduleTime
	disruption.Status = decision.Status
	if err := c.act(ctx, disruption, decision); err != nil {
		disruption.Status.LastScheduleTime = before
		return reconciler.Next{}, err
	}
	next := reconciler.Next{}
	if !expiry.IsZero() {
		next = next.NoLaterThan(expiry.Sub(world.Now))
	}
	if !decision.Next.IsZero() {
		next = next.NoLaterThan(max(decision.Next.Sub(world.Now), time.Second))
	}
	return next, nil
}

// act carries a decision out. A cluster whose run cannot be written stops no other one.
func (c *Controller) act(ctx context.Context, disruption *v1alpha1.NodeDisruption, decision Decision) error {
	var problems []error
	for i := range decision.Create {
		problems = append(problems, c.createRun(ctx, disruption, &decision.Create[i]))
	}
	problems = append(problems,
		fanout.PatchAll(ctx, c.Client, decision.Pause, []byte(`{"spec":{"paused":true}}`)),
		fanout.PatchAll(ctx, c.Client, decision.Resume, []byte(`{"spec":{"paused":false}}`)))
	for i := range decision.Delete {
		run := &decision.Delete[i]
		if err := c.Client.Delete(ctx, run, client.Preconditions{UID: &run.UID}); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("deleting node disruption run %s/%s: %w", run.Namespace, run.Name, err))
		}
	}
	return errors.Join(problems...)
}

// createRun makes a run. One of that name that is another's is left alone, and the cluster is named as a failure; but one of a
// disruption of the same name that was deleted goes, and is waited for.
func (c *Controller) createRun(ctx context.Context, disruption *v1alpha1.NodeDisruption, run *v1alpha1.NodeDisruptionRun) error {
	owner, err := parentOf(disruption).Create(ctx, c.Client, c.Live, run, &v1alpha1.NodeDisruptionRun{})
	switch {
	case apierrors.IsInvalid(err):
		// The disruption is older than a rule. Trying again would not help.
		fanout.NoteFailure(&disruption.Status.Failures, run.Namespace, "skipped, because its run is refused: "+err.Error()+": delete the disruption and create a correct one")
		return nil
	case err != nil:
		return err
	case owner == fanout.Leftover:
		return fmt.Errorf("waiting for the end of node disruption run %s/%s, whose disruption was deleted", run.Namespace, run.Name)
	case owner == fanout.Others:
		fanout.NoteFailure(&disruption.Status.Failures, run.Namespace, fmt.Sprintf("skipped, because another NodeDisruptionRun has the name %s: delete one of the two", run.Name))
	}
	return nil
}

// Shrink is a transform of the hub's cache: it leaves out of a run what is known of each Node.
func Shrink(object any) (any, error) {
	run, is := object.(*v1alpha1.NodeDisruptionRun)
	if !is {
		return object, nil
	}
	run.ManagedFields, run.Status.Nodes = nil, nil
	return run, nil
}

// SetupWithManager registers the controller.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	ofRun := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, run client.Object) []reconcile.Request {
		if name := run.GetLabels()[v1alpha1.NodeDisruptionNameLabel]; name != "" {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
		}
		return nil
	})
	err := c.Placements.Watch(ctrl.NewControllerManagedBy(mgr), c.ofPlacement).
		For(&v1alpha1.NodeDisruption{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.NodeDisruptionRun{}, ofRun).
		WithOptions(options).
		Complete(reconciler.New(mgr.GetClient(), mgr.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting the disruption controller up: %w", err)
	}
	return nil
}

// ofPlacement are the disruptions that refer to a Placement.
func (c *Controller) ofPlacement(ctx context.Context, changed v1alpha1.PlacementReference) []reconcile.Request {
	list := &v1alpha1.NodeDisruptionList{}
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing disruptions to wake")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if presence.Concerns(changed, list.Items[i].Spec.PlacementRef) {
			requests = append(requests, reconciler.Request("", list.Items[i].Name))
		}
	}
	return requests
}
