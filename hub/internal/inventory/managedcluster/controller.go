// Package managedcluster shows Clusters to Open Cluster Management as ManagedClusters, and takes on those of its
// ManagedClusters that a user asks for. It is there where the API server has that kind.
package managedcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters/status,verbs=patch
// Open Cluster Management's webhooks put each new ManagedCluster into its default set, and ask whether its user may.
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets/join,resourceNames=default,verbs=create
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// staleRetry is when a name is looked at again after a conflict, should the newer version not wake it before.
	staleRetry = time.Second
	// refusedRetry is when a mirror that was refused is tried again: nothing tells when rights or a webhook change.
	refusedRetry = time.Minute
	// tidyRetry is when it is tried again to tidy up, should it fail.
	tidyRetry = 10 * time.Second
)

var managedClusterKind = schema.GroupVersionKind{Group: clusterv1.GroupName, Version: clusterv1.GroupVersion.Version, Kind: "ManagedCluster"}

// Deps is what the controller needs. All of it is required.
type Deps struct {
	inventory.Access
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// Controller holds the Cluster and the ManagedCluster of one name together: observe, decide, act.
type Controller struct {
	Deps
	events   reconciler.EventDeduplicator
	throttle reconciler.StatusThrottle
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Clusters == nil || deps.Objects == nil || deps.Client == nil || deps.Recorder == nil || deps.Clock == nil {
		return nil, errors.New("making the ManagedCluster controller: a dependency is missing")
	}
	return &Controller{Deps: deps}, nil
}

// Setup returns what has a manager run the controller where ManagedClusters are installed, and tidy up where they are not.
func Setup(kinds *foreignkinds.Installed, recorder events.EventRecorder, now clock.PassiveClock) func(ctrl.Manager, controller.Options) error {
	if !kinds.Has(foreignkinds.ManagedClusters) {
		return tidyUp
	}
	return func(manager ctrl.Manager, options controller.Options) error {
		return inventory.Add(manager, inventory.Described{
			Name: "managedcluster", Kind: foreignkinds.ManagedClusters, Object: &clusterv1.ManagedCluster{}, Installed: kinds,
			Reconciler: func(access inventory.Access) (reconcile.Reconciler, error) {
				return New(Deps{Access: access, Recorder: recorder, Clock: now})
			},
		}, options)
	}
}

// tidyUp has manager, whose API server does not have ManagedClusters, take away what the controller said on Clusters.
func tidyUp(manager ctrl.Manager, _ controller.Options) error {
	tidy := ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		_ = wait.PollUntilContextCancel(ctx, tidyRetry, true, func(ctx context.Context) (bool, error) {
			_, err := manager.GetCache().GetInformer(ctx, &v1alpha1.Cluster{}) // Controllers that read them may not have started yet.
			if err == nil {
				err = removeConditions(ctx, manager.GetClient())
			}
			if err != nil && ctx.Err() == nil {
				manager.GetLogger().Error(err, "Tidying up after ManagedClusters, which are not installed", "again", tidyRetry)
			}
			return err == nil, nil
		})
		return nil
	})
	if err := manager.Add(tidy); err != nil {
		return fmt.Errorf("tidying up after ManagedClusters: %w", err)
	}
	return nil
}

// removeConditions takes away what the controller said on Clusters, which no controller would keep true any more.
func removeConditions(ctx context.Context, clusters client.Client) error {
	list := &v1alpha1.ClusterList{}
	if err := clusters.List(ctx, list); err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	var failed []error
	for i := range list.Items {
		name := list.Items[i].Name
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			cluster := &v1alpha1.Cluster{}
			if err := clusters.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
				return client.IgnoreNotFound(err)
			}
			before := cluster.DeepCopy()
			if !meta.RemoveStatusCondition(&cluster.Status.Conditions, v1alpha1.ClusterMirroredCondition) {
				return nil
			}
			return client.IgnoreNotFound(clusters.Status().Patch(ctx, cluster, reconciler.MergeFromWithLock(before), inventory.FieldManager))
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("removing condition %s of cluster %s: %w", v1alpha1.ClusterMirroredCondition, name, err))
		}
	}
	return errors.Join(failed...)
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	in, err := c.observe(ctx, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	next := decide(in)
	wait, err := c.act(ctx, in, &next)
	if next.standing != nil || err == nil {
		c.events.Send(c.Recorder, request.Name, in.eventObject(), next.standing)
	}
	if apierrors.IsConflict(err) {
		// A write that rested on a stale read, which is nothing to tell an operator.
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	return reconcile.Result{RequeueAfter: wait}, err
}

// observe reads what there is of one name.
func (c *Controller) observe(ctx context.Context, name string) (observed, error) {
	in := observed{cluster: &v1alpha1.Cluster{}, managed: &clusterv1.ManagedCluster{}, now: c.Clock.Now()}
	if err := c.Clusters.Get(ctx, client.ObjectKey{Name: name}, in.cluster); apierrors.IsNotFound(err) {
		in.cluster = nil
	} else if err != nil {
		return in, fmt.Errorf("getting cluster %s: %w", name, err)
	}
	if err := c.Objects.Get(ctx, client.ObjectKey{Name: name}, in.managed); apierrors.IsNotFound(err) {
		in.managed = nil
	} else if err != nil {
		return in, fmt.Errorf("getting ManagedCluster %s: %w", name, err)
	}
	return in, nil
}

// eventObject is the object that events are about.
func (in observed) eventObject() client.Object {
	if in.cluster != nil {
		return in.cluster
	}
	return withKind(in.managed)
}

// withKind gives managed its kind, which the recorder's scheme does not know.
func withKind(managed *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
	if managed != nil {
		managed = managed.DeepCopy()
		managed.SetGroupVersionKind(managedClusterKind)
	}
	return managed
}
