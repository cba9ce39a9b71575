package inventory

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// Controller describes a controller that holds Clusters and the objects of another's kind together. It is asked
// for the name that the two share.
type Controller struct {
	Name string
	// Definition is the name of the kind's CustomResourceDefinition.
	Definition string
	Kind       schema.GroupVersionKind
	Object     client.Object
	// Namespace holds the objects, if their kind has namespaces.
	Namespace   string
	AddToScheme func(*runtime.Scheme) error
	// Reconciler makes the reconciler anew each time that the kind is installed.
	Reconciler func(Access) (reconcile.Reconciler, error)
	// Absent, if set, is called each time that the kind is found not to be installed.
	Absent func(context.Context) error
}

// Access is how a reconciler gets at objects.
type Access struct {
	// Clusters reads Clusters, and Objects the other kind, from caches.
	Clusters, Objects client.Reader
	// Client reads and writes both without a cache.
	Client client.Client
}

// Add has manager run the controller whenever its kind is installed.
func Add(manager ctrl.Manager, described Controller, options controller.Options) error {
	options.DefaultFromConfig(manager.GetControllerOptions())
	watch := &Watch{
		Config: manager.GetConfig(), HTTPClient: manager.GetHTTPClient(),
		Definition: described.Definition, Version: described.Kind.Version, Absent: described.Absent,
		Present: func(ctx context.Context) error { return described.run(ctx, manager, options) },
	}
	if err := manager.Add(watch); err != nil {
		return fmt.Errorf("adding the %s controller: %w", described.Name, err)
	}
	return nil
}

// run runs the controller until ctx ends. All that it has ends with it.
func (c Controller) run(ctx context.Context, manager ctrl.Manager, options controller.Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	known := scheme.New()
	if err := c.AddToScheme(known); err != nil {
		return fmt.Errorf("registering %s: %w", c.Kind.Kind, err)
	}
	mapper := c.mapper()
	objects, err := cache.New(manager.GetConfig(), c.cacheOptions(manager, known, mapper))
	if err != nil {
		return fmt.Errorf("making the cache of %s: %w", c.Kind.Kind, err)
	}
	direct, err := client.New(manager.GetConfig(), client.Options{HTTPClient: manager.GetHTTPClient(), Scheme: known, Mapper: mapper})
	if err != nil {
		return fmt.Errorf("making a client of %s: %w", c.Kind.Kind, err)
	}
	reconciler, err := c.Reconciler(Access{Clusters: manager.GetCache(), Objects: objects, Client: direct})
	if err != nil {
		return err
	}
	options.Reconciler = untilEnd(reconciler)
	worker, err := controller.NewUnmanaged(c.Name, options)
	if err != nil {
		return fmt.Errorf("making the %s controller: %w", c.Name, err)
	}
	err = errors.Join(
		worker.Watch(source.Kind(objects, c.Object, handler.TypedEnqueueRequestsFromMapFunc(named))),
		worker.Watch(clusters(manager.GetCache())),
	)
	if err != nil {
		return fmt.Errorf("watching for the %s controller: %w", c.Name, err)
	}
	return together(ctx, cancel, objects.Start, worker.Start)
}

// farewell is how long the news that a kind is being removed may take, once the API server refuses its objects.
const farewell = 2 * time.Second

// untilEnd drops the errors of work that was cut short, which are no news to an operator: after the end, and those
// with which the API server refuses objects of a kind that is on its way out.
func untilEnd(reconciler reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := reconciler.Reconcile(ctx, request)
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			timer := time.NewTimer(farewell)
			defer timer.Stop()
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
		if ctx.Err() != nil {
			err = nil
		}
		return result, err
	})
}

// together runs all until one ends or ctx does, and returns when all have ended.
func together(ctx context.Context, cancel context.CancelFunc, all ...func(context.Context) error) error {
	ended := make(chan error, len(all))
	for _, each := range all {
		go func() {
			defer cancel()
			ended <- each(ctx)
		}()
	}
	var err error
	for range all {
		err = errors.Join(err, <-ended)
	}
	return err
}

// mapper knows where the kinds are served. To ask the API server instead would fail for a moment after the
// installation, and remember for ever what is gone.
func (c Controller) mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	scope := meta.RESTScope(meta.RESTScopeRoot)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Cluster"), scope)
	if c.Namespace != "" {
		scope = meta.RESTScopeNamespace
	}
	mapper.Add(c.Kind, scope)
	return mapper
}

func (c Controller) cacheOptions(manager ctrl.Manager, known *runtime.Scheme, mapper meta.RESTMapper) cache.Options {
	options := cache.Options{
		HTTPClient: manager.GetHTTPClient(), Scheme: known, Mapper: mapper,
		DefaultTransform:            cache.TransformStripManagedFields(),
		ReaderFailOnMissingInformer: true,
		DefaultWatchErrorHandler: func(ctx context.Context, reflector *toolscache.Reflector, err error) {
			// The objects go a moment before the definition does: nothing to tell an operator.
			if !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
				toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
			}
		},
	}
	if c.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{c.Namespace: {}}
	}
	return options
}

// named asks for the name that an object shares with its Cluster.
func named(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{reconciler.Request("", object.GetName())}
}

// clusters is a source of Clusters which, unlike source.Kind, leaves the long-lived cache when ctx ends.
func clusters(from cache.Cache) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		informer, err := from.GetInformer(ctx, &v1alpha1.Cluster{})
		if err != nil {
			return fmt.Errorf("getting the informer of clusters: %w", err)
		}
		wake := func(object any) {
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if cluster, ok := object.(client.Object); ok {
				queue.Add(named(ctx, cluster)[0])
			}
		}
		registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: wake, UpdateFunc: func(_, now any) { wake(now) }, DeleteFunc: wake,
		})
		if err != nil {
			return fmt.Errorf("watching clusters: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registered) })
		return nil
	})
}
