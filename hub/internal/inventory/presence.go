package inventory

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
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
	// Reconciler makes the reconciler again each time that the kind is installed.
	Reconciler func(Access) (reconcile.Reconciler, error)
	// Absent, if set, is called each time that the kind is found not to be installed.
	Absent func(context.Context) error
}

// Access is how a reconciler gets at objects.
type Access struct {
	// Clusters reads Clusters, and Objects the other kind, from a cache.
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
		Present: func(ctx context.Context, served Served) error {
			return described.runController(ctx, manager, options, served)
		},
	}
	if err := manager.Add(watch); err != nil {
		return fmt.Errorf("adding the %s controller: %w", described.Name, err)
	}
	return nil
}

// runController runs the controller until ctx ends. All that it has ends with it, the cache of Clusters too: a handler in the
// manager's cache would outlive it.
func (c Controller) runController(ctx context.Context, manager ctrl.Manager, options controller.Options, served Served) error {
	known := scheme.New()
	if err := c.AddToScheme(known); err != nil {
		return fmt.Errorf("registering %s: %w", c.Kind.Kind, err)
	}
	mapper := c.newMapper()
	cached, err := cache.New(manager.GetConfig(), c.cacheOptions(manager, known, mapper))
	if err != nil {
		return fmt.Errorf("making the cache of %s: %w", c.Kind.Kind, err)
	}
	direct, err := client.New(manager.GetConfig(), client.Options{HTTPClient: manager.GetHTTPClient(), Scheme: known, Mapper: mapper})
	if err != nil {
		return fmt.Errorf("making a client of %s: %w", c.Kind.Kind, err)
	}
	reconciler, err := c.Reconciler(Access{Clusters: cached, Objects: cached, Client: direct})
	if err != nil {
		return err
	}
	options.Reconciler = whileServed(reconciler, served)
	worker, err := controller.NewUnmanaged(c.Name, options)
	if err != nil {
		return fmt.Errorf("making the %s controller: %w", c.Name, err)
	}
	byName := handler.TypedEnqueueRequestsFromMapFunc(requestByName)
	err = errors.Join(
		worker.Watch(source.Kind(cached, c.Object, byName)),
		worker.Watch(source.Kind[client.Object](cached, &v1alpha1.Cluster{}, byName)),
	)
	if err != nil {
		return fmt.Errorf("watching for the %s controller: %w", c.Name, err)
	}
	return RunAll(ctx, cached.Start, worker.Start)
}

// whileServed drops the errors of work that was cut short, which are no news to an operator: after the end, and those
// with which the API server refuses objects of a kind that is being removed.
func whileServed(reconciler reconcile.Reconciler, served Served) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := reconciler.Reconcile(ctx, request)
		refused := apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
		if ctx.Err() != nil || refused && !served(ctx) {
			err = nil
		}
		return result, err
	})
}

// RunAll runs all until one fails or ctx ends, and returns when all have ended.
func RunAll(ctx context.Context, all ...func(context.Context) error) error {
	running, ctx := errgroup.WithContext(ctx)
	for _, each := range all {
		running.Go(func() error { return each(ctx) })
	}
	return running.Wait()
}

// newMapper knows where the kinds are served. To ask the API server instead would fail for a moment after the
// installation, and remember forever what is gone.
func (c Controller) newMapper() meta.RESTMapper {
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
	options := CacheOptions(manager, known, mapper)
	if c.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{c.Namespace: {}}
	}
	return options
}

// CacheOptions are those of a cache of kinds that may be removed at any time.
func CacheOptions(manager ctrl.Manager, known *runtime.Scheme, mapper meta.RESTMapper) cache.Options {
	return cache.Options{
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
}

// requestByName asks for the name that an object shares with its Cluster.
func requestByName(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{reconciler.Request("", object.GetName())}
}
