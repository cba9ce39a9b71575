// Package presence reads Placements where their kinds are installed on the hub's API server, and tells of their changes.
package presence

import (
	"context"
	"errors"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements;placementdecisions,verbs=get;list;watch

// Kinds reads Placements and PlacementDecisions. The zero value is for an API server that does not have them.
type Kinds struct {
	cached    cache.Cache
	live      client.Reader
	informers []cache.Informer
}

// New returns the Kinds of manager, which follows the two where both are installed.
func New(manager ctrl.Manager, installed *foreignkinds.Installed) (*Kinds, error) {
	if !installed.Has(foreignkinds.Placements, foreignkinds.PlacementDecisions) {
		return &Kinds{}, nil
	}
	objects, direct, err := foreignkinds.NewAccess(manager)
	if err != nil {
		return nil, err
	}
	kinds := &Kinds{cached: objects, live: direct}
	for _, object := range []client.Object{&clusterv1beta1.Placement{}, &clusterv1beta1.PlacementDecision{}} {
		informer, err := objects.GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("following %T: %w", object, err)
		}
		kinds.informers = append(kinds.informers, informer)
	}
	return kinds, nil
}

// Cached returns a reader of what this process has read, or placement.ErrNotInstalled or placement.ErrStarting.
func (k *Kinds) Cached() (client.Reader, error) {
	if k.cached == nil {
		return nil, placement.ErrNotInstalled
	}
	for _, informer := range k.informers {
		if !informer.HasSynced() {
			return nil, placement.ErrStarting
		}
	}
	return k.cached, nil
}

// Live returns a reader of what the API server has, or placement.ErrNotInstalled or placement.ErrStarting.
func (k *Kinds) Live() (client.Reader, error) {
	if _, err := k.Cached(); err != nil {
		return nil, err
	}
	return k.live, nil
}

// Watch has a controller reconcile what requests returns for each Placement that changes, or whose decisions do; without a name, for all
// of them. The controller does not wait until they have been read.
func (k *Kinds) Watch(controller *builder.Builder, requests func(context.Context, v1alpha1.PlacementReference) []reconcile.Request) *builder.Builder {
	if k.cached == nil {
		return controller
	}
	changed := func(placementOf func(client.Object) string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []reconcile.Request {
			return requests(ctx, v1alpha1.PlacementReference{Namespace: object.GetNamespace(), Name: placementOf(object)})
		})
	}
	decided := func(decision client.Object) string { return decision.GetLabels()[clusterv1beta1.PlacementLabel] }
	placements := source.Kind[client.Object](k.cached, &clusterv1beta1.Placement{}, changed(client.Object.GetName))
	decisions := source.Kind[client.Object](k.cached, &clusterv1beta1.PlacementDecision{}, changed(decided))
	return controller.WatchesRawSource(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			if toolscache.WaitForCacheSync(ctx.Done(), k.informers[0].HasSynced, k.informers[1].HasSynced) {
				for _, request := range requests(ctx, v1alpha1.PlacementReference{}) {
					queue.Add(request)
				}
			}
		}()
		return errors.Join(placements.Start(ctx, queue), decisions.Start(ctx, queue))
	}))
}

// Concerns reports whether changed is what an object refers to.
func Concerns(changed v1alpha1.PlacementReference, ref *v1alpha1.PlacementReference) bool {
	return ref != nil && (changed.Name == "" || *ref == changed)
}
