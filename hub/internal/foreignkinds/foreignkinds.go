// Package foreignkinds finds out which kinds of other projects the hub's API server has. A hub looks once, when it starts, and
// starts again when that has changed: no controller has to know that its kind may come and go.
package foreignkinds

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=managedclusters.cluster.open-cluster-management.io;clusterprofiles.multicluster.x-k8s.io;placements.cluster.open-cluster-management.io;placementdecisions.cluster.open-cluster-management.io,verbs=get;list;watch

// ErrChanged says that other kinds are installed now.
var ErrChanged = errors.New("another project's kind was installed or removed")

// Kind is a kind that the hub uses where it is installed.
type Kind struct {
	// Definition is the name of the CustomResourceDefinition, and Version the version that it must serve.
	Definition, Version string
}

// The kinds of Open Cluster Management, and of the cluster inventory.
var (
	ManagedClusters    = Kind{"managedclusters.cluster.open-cluster-management.io", "v1"}
	Placements         = Kind{"placements.cluster.open-cluster-management.io", "v1beta1"}
	PlacementDecisions = Kind{"placementdecisions.cluster.open-cluster-management.io", "v1beta1"}
	ClusterProfiles    = Kind{"clusterprofiles.multicluster.x-k8s.io", "v1alpha1"}

	all = []Kind{ManagedClusters, Placements, PlacementDecisions, ClusterProfiles}
)

// Installed has found out which kinds are installed.
type Installed struct {
	// definitions has the UID of the definition of each kind that is installed.
	definitions map[Kind]types.UID
	direct      client.WithWatch
}

// Find asks the API server which kinds are installed. No answer is an error: it does not mean that they are not.
func Find(ctx context.Context, config *rest.Config) (*Installed, error) {
	direct, err := newClient(config)
	if err != nil {
		return nil, err
	}
	found := &Installed{map[Kind]types.UID{}, direct}
	for _, kind := range all {
		if found.definitions[kind], err = kind.findDefinition(ctx, direct); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Has reports whether all these kinds were installed.
func (i *Installed) Has(kinds ...Kind) bool {
	return !slices.ContainsFunc(kinds, func(kind Kind) bool { return i.definitions[kind] == "" })
}

// Lost asks the API server, and reports whether it says that kind is no longer installed as it was.
func (i *Installed) Lost(ctx context.Context, kind Kind) bool {
	now, err := kind.findDefinition(ctx, i.direct)
	return err == nil && now != i.definitions[kind]
}

// Watcher ends a hub, elected or not, when other kinds are installed than were found. It costs one idle watch a kind.
type Watcher struct {
	*Installed
	// Restarts bounds how often, so that a kind that comes and goes does not keep the hub from its work.
	Restarts *rate.Limiter
}

// Start returns ErrChanged, or nil when ctx ends. It implements manager.Runnable.
func (w Watcher) Start(ctx context.Context) error {
	watching, bounded := errgroup.WithContext(ctx)
	for _, kind := range all {
		watching.Go(func() error { return kind.awaitOther(bounded, w.direct, w.definitions[kind]) })
	}
	err := watching.Wait()
	if w.Restarts.Wait(ctx) != nil {
		return nil //nolint:nilerr // ctx has ended.
	}
	return err
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (Watcher) NeedLeaderElection() bool { return false }

// findDefinition returns the UID of the definition that serves the kind, or none.
func (k Kind) findDefinition(ctx context.Context, direct client.Client) (types.UID, error) {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := direct.List(ctx, list, k.selectDefinition()); err != nil {
		return "", fmt.Errorf("reading CustomResourceDefinition %s: %w", k.Definition, err)
	}
	for at := range list.Items {
		return k.servedBy(&list.Items[at]), nil
	}
	return "", nil
}

// awaitOther returns ErrChanged when the definition that serves the kind, if any, is not the one of that UID.
func (k Kind) awaitOther(ctx context.Context, direct client.WithWatch, uid types.UID) error {
	lists := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &apiextensionsv1.CustomResourceDefinitionList{}
			return list, direct.List(ctx, list, k.selectDefinition(), &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return direct.Watch(ctx, &apiextensionsv1.CustomResourceDefinitionList{}, k.selectDefinition(), &client.ListOptions{Raw: &options})
		},
	}
	// There is no event of a definition that went before the watch began.
	went := func(store toolscache.Store) (bool, error) { return uid != "" && len(store.List()) == 0, nil }
	_, err := watchtools.UntilWithSync(ctx, lists, &apiextensionsv1.CustomResourceDefinition{}, went, func(event watch.Event) (bool, error) {
		definition, is := event.Object.(*apiextensionsv1.CustomResourceDefinition)
		return event.Type == watch.Deleted && uid != "" || event.Type != watch.Deleted && is && k.servedBy(definition) != uid, nil
	})
	if err != nil {
		return fmt.Errorf("watching CustomResourceDefinition %s: %w", k.Definition, err)
	}
	return fmt.Errorf("%w: %s", ErrChanged, k.Definition)
}

func (k Kind) selectDefinition() client.ListOption {
	return client.MatchingFields{"metadata.name": k.Definition}
}

// servedBy returns the UID of definition, which describes the kind, if the API server serves it and keeps doing so.
func (k Kind) servedBy(definition *apiextensionsv1.CustomResourceDefinition) types.UID {
	served, established := false, false
	for _, has := range definition.Spec.Versions {
		served = served || has.Name == k.Version && has.Served
	}
	for _, condition := range definition.Status.Conditions {
		established = established || condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue
	}
	if definition.DeletionTimestamp == nil && served && established {
		return definition.UID
	}
	return ""
}

// newClient knows where CustomResourceDefinitions are without asking the API server.
func newClient(config *rest.Config) (client.WithWatch, error) {
	known, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	mapper.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		return nil, fmt.Errorf("registering CustomResourceDefinitions: %w", err)
	}
	direct, err := client.NewWithWatch(config, client.Options{Scheme: known, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client of CustomResourceDefinitions: %w", err)
	}
	return direct, nil
}
