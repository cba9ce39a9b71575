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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=managedclusters.cluster.open-cluster-management.io;clusterprofiles.multicluster.x-k8s.io,verbs=get;list;watch

// retryAfter is how long something that failed while its kind is there waits to be started again.
const retryAfter = 10 * time.Second

// Watch runs Present while the CustomResourceDefinition is there. It is a manager.Runnable, which manager runs
// once it leads.
type Watch struct {
	Config     *rest.Config
	HTTPClient *http.Client
	// Definition is the name of the CustomResourceDefinition, and Version the version that it must serve.
	Definition, Version string
	// Present works until its context ends, which it does when the definition goes. Should it fail, it is
	// started again.
	Present func(context.Context) error
	// Absent, if set, is called each time that the definition is found to be missing: at the start, and when it goes.
	Absent func(context.Context) error
}

// Start implements manager.Runnable.
func (w *Watch) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	definitions, err := w.definitions(ctx)
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinition %s: %w", w.Definition, err)
	}
	changed := make(chan struct{}, 1)
	wake := func(any) {
		select {
		case changed <- struct{}{}:
		default: // The reconciler that is woken reads the newest state anyway.
		}
	}
	_, err = definitions.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: wake, UpdateFunc: func(_, now any) { wake(now) }, DeleteFunc: wake,
	})
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinition %s: %w", w.Definition, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- definitions.cache.Start(ctx) }()
	if !definitions.cache.WaitForCacheSync(ctx) {
		return <-ended
	}
	wake(nil)
	w.follow(ctx, definitions.cache, changed)
	return <-ended
}

// follow keeps Present running as the definition comes and goes, until ctx ends.
func (w *Watch) follow(ctx context.Context, definitions client.Reader, changed <-chan struct{}) {
	work := &work{run: w.Present}
	defer work.stop()
	for looked := false; ; looked = true {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-work.failed():
		}
		now, err := w.check(ctx, definitions)
		switch {
		case err != nil: // Only a reader that has ended fails, and so does ctx then.
		case looked && now == work.definition:
			work.restart(ctx)
		default:
			w.change(ctx, work, now)
		}
	}
}

// change ends the work for the definition that was, and begins that for the one that is.
func (w *Watch) change(ctx context.Context, work *work, now types.UID) {
	logger := klog.FromContext(ctx).WithValues("CustomResourceDefinition", w.Definition)
	if work.definition != "" {
		logger.Info("Stopping the controller of a kind that is not installed any more")
		work.stop()
	}
	work.definition = now
	if now != "" {
		logger.Info("Starting the controller of an installed kind")
		work.start(ctx)
		return
	}
	if w.Absent == nil {
		return
	}
	if err := w.Absent(ctx); err != nil && ctx.Err() == nil {
		logger.Error(err, "Tidying up after a kind that is not installed")
	}
}

// check returns the UID of the definition if it can be used, else none.
func (w *Watch) check(ctx context.Context, definitions client.Reader) (types.UID, error) {
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

// Usable tells whether the API server serves version of the kind that definition describes, and goes on doing so.
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

// definitions is a cache of the one definition that a Watch is about.
type definitions struct {
	cache    cache.Cache
	informer cache.Informer
}

func (w *Watch) definitions(ctx context.Context) (*definitions, error) {
	known := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		return nil, err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	named, err := cache.New(w.Config, cache.Options{
		HTTPClient: w.HTTPClient, Scheme: known, Mapper: mapperOf(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")),
		ByObject: map[client.Object]cache.ByObject{
			definition: {Field: fields.OneTermEqualSelector("metadata.name", w.Definition), Transform: slim},
		},
	})
	if err != nil {
		return nil, err
	}
	informer, err := named.GetInformer(ctx, definition, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	return &definitions{cache: named, informer: informer}, nil
}

// slim leaves of a definition what Usable reads.
func slim(object any) (any, error) {
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

// mapperOf knows where the API server serves kind, a cluster-scoped one, without asking it.
func mapperOf(kind schema.GroupVersionKind) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeRoot)
	return mapper
}

// work is what runs while a definition is there.
type work struct {
	run func(context.Context) error
	// definition is the UID of the definition for which it runs.
	definition types.UID
	cancel     context.CancelFunc
	done       chan struct{}
	// retry fires when work that failed is to be started again.
	retry chan struct{}
}

func (w *work) start(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done, retry := make(chan struct{}), make(chan struct{})
	w.cancel, w.done, w.retry = cancel, done, retry
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
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
			close(retry)
		}
	}()
}

// restart starts work again that has ended by itself, once it is due.
func (w *work) restart(ctx context.Context) {
	select {
	case <-w.failed():
		w.stop()
		w.start(ctx)
	default:
	}
}

// failed is closed when work that ended by itself is to be started again.
func (w *work) failed() <-chan struct{} { return w.retry }

// stop ends the work and waits until it has ended.
func (w *work) stop() {
	if w.cancel == nil {
		return
	}
	w.cancel()
	<-w.done
	w.cancel, w.retry = nil, nil
}
