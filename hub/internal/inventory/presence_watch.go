package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=managedclusters.cluster.open-cluster-management.io;clusterprofiles.multicluster.x-k8s.io,verbs=get;list;watch

// retryAfter is how long something that failed while its kind is there waits to be started again.
const retryAfter = 10 * time.Second

// Served asks the API server whether it serves the kind, and keeps doing so.
type Served func(context.Context) bool

// Watch runs Present while the CustomResourceDefinition is there. It is a manager.Runnable, which manager runs
// once it leads. It costs one idle watch.
type Watch struct {
	Config     *rest.Config
	HTTPClient *http.Client
	// Definition is the name of the CustomResourceDefinition, and Version the version that it must serve.
	Definition, Version string
	// Present works until its context ends, which it does when the definition goes. Should it fail, it is
	// started again.
	Present func(context.Context, Served) error
	// Absent, if set, is called each time that the definition is found to be missing: at the start, and when it goes. Should
	// it fail, it is called again.
	Absent func(context.Context) error
}

// Start implements manager.Runnable.
func (w *Watch) Start(ctx context.Context) error {
	cached, direct, err := w.watchDefinition()
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinition %s: %w", w.Definition, err)
	}
	work, request := &work{}, reconciler.Request("", w.Definition)
	defer work.stopWork()
	work.run = func(ctx context.Context) error {
		return w.Present(ctx, func(ctx context.Context) bool {
			definition, err := w.usableDefinition(ctx, direct)
			return err != nil || definition != ""
		})
	}
	watcher, err := controller.NewUnmanaged("presence-"+w.Definition, controller.Options{
		SkipNameValidation: new(true), RateLimiter: reconciler.Retries(), Logger: klog.FromContext(ctx),
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, w.followDefinition(ctx, cached, work) // The work outlives the reconciliation.
		}),
	})
	if err != nil {
		return fmt.Errorf("making the controller of CustomResourceDefinition %s: %w", w.Definition, err)
	}
	start := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		work.again = func() { queue.AddAfter(request, retryAfter) }
		queue.Add(request) // There is no event if there is no definition.
		return nil
	}
	err = errors.Join(
		watcher.Watch(source.Func(start)),
		watcher.Watch(source.Kind(cached, &apiextensionsv1.CustomResourceDefinition{}, &handler.TypedEnqueueRequestForObject[*apiextensionsv1.CustomResourceDefinition]{})),
	)
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinition %s: %w", w.Definition, err)
	}
	return RunAll(ctx, cached.Start, watcher.Start)
}

// followDefinition ends the work for the definition that was, and starts that for the one that is.
func (w *Watch) followDefinition(ctx context.Context, definitions client.Reader, work *work) error {
	now, err := w.usableDefinition(ctx, definitions)
	if err != nil || work.isDoneFor(now) {
		return err
	}
	logger := klog.FromContext(ctx).WithValues("CustomResourceDefinition", w.Definition)
	if work.cancel != nil {
		logger.Info("Stopping the controller of a kind that is not installed any more")
		work.stopWork()
	}
	if now != "" {
		logger.Info("Starting the controller of an installed kind")
		work.startWork(ctx, now)
		return nil
	}
	if w.Absent != nil {
		if err := w.Absent(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("tidying up after kind %s, which is not installed: %w", w.Definition, err)
		}
	}
	work.definition = new(now)
	return nil
}

// usableDefinition returns the UID of the definition if it can be used, else none.
func (w *Watch) usableDefinition(ctx context.Context, definitions client.Reader) (types.UID, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	err := definitions.Get(ctx, client.ObjectKey{Name: w.Definition}, definition)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("getting CustomResourceDefinition %s: %w", w.Definition, err)
	}
	if err != nil || !Usable(definition, w.Version) {
		return "", nil //nolint:nilerr // One that is not there is what this function is about.
	}
	return definition.UID, nil
}

// Usable reports whether the API server serves version of the kind that definition describes, and keeps doing so.
func Usable(definition *apiextensionsv1.CustomResourceDefinition, version string) bool {
	if definition.DeletionTimestamp != nil {
		return false
	}
	served := false
	for _, has := range definition.Spec.Versions {
		served = served || has.Name == version && has.Served
	}
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return served && condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

// watchDefinition returns a cache of the one definition, and a client that reads it from the API server.
func (w *Watch) watchDefinition() (cache.Cache, client.Client, error) {
	known := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		return nil, nil, err
	}
	// It knows where definitions are served without asking the API server.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	cached, err := cache.New(w.Config, cache.Options{
		HTTPClient: w.HTTPClient, Scheme: known, Mapper: mapper,
		ByObject: map[client.Object]cache.ByObject{&apiextensionsv1.CustomResourceDefinition{}: {
			Field: fields.OneTermEqualSelector("metadata.name", w.Definition), Transform: slimDefinition,
		}},
	})
	if err != nil {
		return nil, nil, err
	}
	direct, err := client.New(w.Config, client.Options{HTTPClient: w.HTTPClient, Scheme: known, Mapper: mapper})
	return cached, direct, err
}

// slimDefinition leaves of a definition what Usable reads.
func slimDefinition(object any) (any, error) {
	definition, ok := object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return object, nil
	}
	definition.Annotations, definition.ManagedFields = nil, nil
	for i := range definition.Spec.Versions {
		has := &definition.Spec.Versions[i]
		*has = apiextensionsv1.CustomResourceDefinitionVersion{Name: has.Name, Served: has.Served, Storage: has.Storage}
	}
	return definition, nil
}

// work is what runs while a definition is there.
type work struct {
	run func(context.Context) error
	// again has the definition looked at again, to start work that has failed.
	again func()
	// definition is the UID of the definition for which it runs, empty if it has been found missing; nil at first.
	definition *types.UID
	cancel     context.CancelFunc
	done       chan struct{}
}

// isDoneFor reports whether nothing is to be done about the definition, of which now is the UID.
func (w *work) isDoneFor(now types.UID) bool {
	if w.definition == nil || *w.definition != now {
		return false
	}
	if w.cancel == nil {
		return true
	}
	select {
	case <-w.done: // It has ended by itself.
		return false
	default:
		return true
	}
}

func (w *work) startWork(ctx context.Context, definition types.UID) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	w.definition, w.cancel, w.done = &definition, cancel, done
	go func() {
		err := w.run(ctx)
		close(done)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended by itself")
		}
		klog.FromContext(ctx).Error(err, "Starting the controller of an installed kind again later", "after", retryAfter)
		w.again()
	}()
}

// stopWork ends the work and waits until it has ended.
func (w *work) stopWork() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	<-w.done
	w.definition, w.cancel = nil, nil
}
