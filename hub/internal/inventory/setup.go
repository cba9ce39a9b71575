package inventory

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

const (
	// anyTime is how long a controller waits for a kind that cannot be read, rather than end the hub.
	anyTime = 10 * 365 * 24 * time.Hour
	// removedRetry is when a name is looked at again whose kind was being removed, should the hub not start again before.
	removedRetry = time.Minute
)

// Access is how a reconciler gets at objects.
type Access struct {
	// Clusters reads Clusters, and Objects the other kind, from a cache.
	Clusters, Objects client.Reader
	// Client reads and writes both without a cache.
	Client client.Client
}

// Described is a controller that holds Clusters and the objects of another's kind together. It is asked for the name that the two share.
type Described struct {
	Name      string
	Kind      foreignkinds.Kind
	Object    client.Object
	Installed *foreignkinds.Installed
	// Reconciler makes the reconciler.
	Reconciler func(Access) (reconcile.Reconciler, error)
}

// Add has manager run the controller.
func Add(manager ctrl.Manager, described Described, options controller.Options) error {
	objects, direct, err := foreignkinds.NewAccess(manager)
	if err != nil {
		return err
	}
	reconciles, err := described.Reconciler(Access{Clusters: manager.GetClient(), Objects: objects, Client: direct})
	if err != nil {
		return err
	}
	options.CacheSyncTimeout = anyTime
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{reconciler.Request("", object.GetName())}
	})
	removed := func(ctx context.Context) bool { return described.Installed.Lost(ctx, described.Kind) }
	err = ctrl.NewControllerManagedBy(manager).Named(described.Name).WithOptions(options).
		WatchesRawSource(source.Kind(objects, described.Object, byName)).Watches(&v1alpha1.Cluster{}, byName).Complete(untilRemoved(reconciles, removed))
	if err != nil {
		return fmt.Errorf("adding the %s controller: %w", described.Name, err)
	}
	return nil
}

// untilRemoved drops the errors of work that was cut short, which are no news to an operator: after the end, and those
// with which the API server refuses objects of a kind that is being removed.
func untilRemoved(reconciler reconcile.Reconciler, removed func(context.Context) bool) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := reconciler.Reconcile(ctx, request)
		refused := apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
		if ctx.Err() != nil || refused && removed(ctx) {
			return reconcile.Result{RequeueAfter: removedRetry}, nil //nolint:nilerr // See above.
		}
		return result, err
	})
}
