// Package presence reads Placements while their kinds are installed on the hub's API server, and tells of their changes.
package presence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements;placementdecisions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=placements.cluster.open-cluster-management.io;placementdecisions.cluster.open-cluster-management.io,verbs=get;list;watch

// Names of the CustomResourceDefinitions.
const (
	PlacementsDefinition = "placements.cluster.open-cluster-management.io"
	DecisionsDefinition  = "placementdecisions.cluster.open-cluster-management.io"
)

func kindNamed(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: clusterv1beta1.GroupName, Version: clusterv1beta1.GroupVersion.Version, Kind: name}
}

// Kinds reads Placements and PlacementDecisions while both kinds are installed, and tells of their changes. The zero value
// is ready for use, and knows nothing until it runs in a manager.
type Kinds struct {
	mu                    sync.Mutex
	placements, decisions kind
	live                  client.Reader
	subscribers           []reconciler.News
}

// kind is one of the two. Until it is known, this process does not know whether it is installed.
type kind struct {
	known  bool
	cached client.Reader
}

// News returns a channel with the Placement, by namespace and name only, of every change. Without a name the change concerns
// all of them.
func (k *Kinds) News() <-chan event.GenericEvent {
	k.mu.Lock()
	defer k.mu.Unlock()
	news := reconciler.NewNews()
	k.subscribers = append(k.subscribers, news)
	return news
}

func (k *Kinds) sendEvent(namespace, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, news := range k.subscribers {
		changed := &clusterv1beta1.Placement{}
		changed.Namespace, changed.Name = namespace, name
		news.Send(event.GenericEvent{Object: changed})
	}
}

// Cached returns a reader of what this process has read, or placement.ErrNotInstalled or placement.ErrStarting.
func (k *Kinds) Cached() (client.Reader, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.placements.known && k.placements.cached == nil, k.decisions.known && k.decisions.cached == nil:
		return nil, placement.ErrNotInstalled
	case !k.placements.known || !k.decisions.known:
		return nil, placement.ErrStarting
	}
	return &split{Reader: k.placements.cached, decisions: k.decisions.cached}, nil
}

// Live returns a reader of what the API server has, or placement.ErrNotInstalled or placement.ErrStarting.
func (k *Kinds) Live() (client.Reader, error) {
	if _, err := k.Cached(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.live, nil
}

// split lists PlacementDecisions from a cache of their own.
type split struct {
	client.Reader
	decisions client.Reader
}

func (s *split) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return s.decisions.List(ctx, list, options...)
}

// SetupWithManager has manager follow the two kinds whenever they are installed.
func (k *Kinds) SetupWithManager(manager ctrl.Manager) error {
	known := runtime.NewScheme()
	if err := placement.AddToScheme(known); err != nil {
		return fmt.Errorf("registering Placements: %w", err)
	}
	// To ask the API server instead would fail for a moment after the installation, and remember forever what is gone.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kindNamed("Placement"), meta.RESTScopeNamespace)
	mapper.Add(kindNamed("PlacementDecision"), meta.RESTScopeNamespace)
	live, err := client.New(manager.GetConfig(), client.Options{HTTPClient: manager.GetHTTPClient(), Scheme: known, Mapper: mapper})
	if err != nil {
		return fmt.Errorf("making a client of Placements: %w", err)
	}
	k.live = live
	of := func(object client.Object) string { return object.GetLabels()[clusterv1beta1.PlacementLabel] }
	return errors.Join(
		manager.Add(k.watchKind(manager, PlacementsDefinition, &k.placements, known, mapper, &clusterv1beta1.Placement{}, client.Object.GetName)),
		manager.Add(k.watchKind(manager, DecisionsDefinition, &k.decisions, known, mapper, &clusterv1beta1.PlacementDecision{}, of)),
	)
}

// watchKind follows one kind while it is installed. placementOf is the name of the Placement that an object is about.
func (k *Kinds) watchKind(
	manager ctrl.Manager, definition string, which *kind, known *runtime.Scheme, mapper meta.RESTMapper, object client.Object, placementOf func(client.Object) string,
) *inventory.Watch {
	set := func(now kind) {
		k.mu.Lock()
		*which = now
		k.mu.Unlock()
		k.sendEvent("", "")
	}
	return &inventory.Watch{
		Config: manager.GetConfig(), HTTPClient: manager.GetHTTPClient(), Definition: definition, Version: clusterv1beta1.GroupVersion.Version,
		Absent: func(context.Context) error {
			set(kind{known: true})
			return nil
		},
		Present: func(ctx context.Context, _ inventory.Served) error {
			objects, err := cache.New(manager.GetConfig(), inventory.CacheOptions(manager, known, mapper))
			if err != nil {
				return fmt.Errorf("making a cache of %s: %w", definition, err)
			}
			informer, err := objects.GetInformer(ctx, object, cache.BlockUntilSynced(false))
			if err != nil {
				return fmt.Errorf("watching %s: %w", definition, err)
			}
			changed := func(about any) {
				if o, is := about.(client.Object); is {
					k.sendEvent(o.GetNamespace(), placementOf(o))
				}
			}
			if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: changed, UpdateFunc: func(_, after any) { changed(after) }, DeleteFunc: func(before any) {
					if last, is := before.(toolscache.DeletedFinalStateUnknown); is {
						before = last.Obj
					}
					changed(before)
				},
			}); err != nil {
				return fmt.Errorf("watching %s: %w", definition, err)
			}
			defer set(kind{}) // Whether it is still there is what the watch finds out next.
			return inventory.RunAll(ctx, objects.Start, func(ctx context.Context) error {
				if objects.WaitForCacheSync(ctx) {
					set(kind{known: true, cached: objects})
				}
				<-ctx.Done()
				return nil
			})
		},
	}
}

// Concerns reports whether news, a Placement by namespace and name, are about what a fleet refers to.
func Concerns(news client.Object, ref *v1alpha1.PlacementReference) bool {
	return ref != nil && (news.GetName() == "" || news.GetName() == ref.Name && news.GetNamespace() == ref.Namespace)
}
