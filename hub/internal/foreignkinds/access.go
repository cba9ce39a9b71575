package foreignkinds

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterprofilev1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

// NewAccess returns a cache of installed kinds, which manager runs once it leads, and a client that knows Clusters too. The cache is not
// the manager's: every controller waits for all kinds of that, and one of others that cannot be read would hold up the hub.
func NewAccess(manager ctrl.Manager) (cache.Cache, client.Client, error) {
	known := scheme.New()
	if err := errors.Join(clusterv1.Install(known), clusterv1beta1.Install(known), clusterprofilev1alpha1.AddToScheme(known)); err != nil {
		return nil, nil, fmt.Errorf("registering the kinds of other projects: %w", err)
	}
	// To ask the API server where they are served would fail for a moment after the installation.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("Cluster"), meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersion(clusterv1.GroupVersion).WithKind("ManagedCluster"), meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersion(clusterv1beta1.GroupVersion).WithKind("Placement"), meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersion(clusterv1beta1.GroupVersion).WithKind("PlacementDecision"), meta.RESTScopeNamespace)
	mapper.Add(clusterprofilev1alpha1.GroupVersion.WithKind("ClusterProfile"), meta.RESTScopeNamespace)
	objects, err := cache.New(manager.GetConfig(), cache.Options{
		HTTPClient: manager.GetHTTPClient(), Scheme: known, Mapper: mapper,
		DefaultTransform:            cache.TransformStripManagedFields(),
		ReaderFailOnMissingInformer: true,
		DefaultWatchErrorHandler:    logWatchError,
		ByObject: map[client.Object]cache.ByObject{
			// The hub has rights to those of its own namespace alone.
			&clusterprofilev1alpha1.ClusterProfile{}: {Namespaces: map[string]cache.Config{v1alpha1.HubNamespace: {}}},
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("making a cache of the kinds of other projects: %w", err)
	}
	direct, err := client.New(manager.GetConfig(), client.Options{HTTPClient: manager.GetHTTPClient(), Scheme: known, Mapper: mapper})
	if err != nil {
		return nil, nil, fmt.Errorf("making a client of the kinds of other projects: %w", err)
	}
	if err := manager.Add(objects); err != nil {
		return nil, nil, fmt.Errorf("adding the cache of the kinds of other projects: %w", err)
	}
	return objects, direct, nil
}

// logWatchError is silent about kinds that have just been removed: the hub starts again without them.
func logWatchError(ctx context.Context, reflector *toolscache.Reflector, err error) {
	if !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
	}
}
