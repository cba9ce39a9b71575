// Package clusterprofile shows each Cluster as a ClusterProfile, the inventory entry of SIG Multicluster that other
// tools read. It works while the API server has that kind, and is idle otherwise.
package clusterprofile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterprofilev1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// ClusterProfiles are in the hub's own namespace only: the right to them is in config/rbac/hub/role_leader_election.yaml.

const (
	// staleRetry is when a name is looked at again after a conflict, should the newer version not wake it before.
	staleRetry = time.Second
)

// Deps is what the controller needs. All of it is required.
type Deps struct {
	inventory.Access
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// Controller keeps the ClusterProfile of one Cluster.
type Controller struct {
	Deps
	events   reconciler.EventDeduplicator
	throttle reconciler.StatusThrottle
}

// New returns a Controller.
func New(deps Deps) (*Controller, error) {
	if deps.Clusters == nil || deps.Objects == nil || deps.Client == nil || deps.Recorder == nil || deps.Clock == nil {
		return nil, errors.New("making the ClusterProfile controller: a dependency is missing")
	}
	return &Controller{Deps: deps}, nil
}

// Setup returns what has a manager run the controller where ClusterProfiles are installed.
func Setup(kinds *foreignkinds.Installed, recorder events.EventRecorder, now clock.PassiveClock) func(ctrl.Manager, controller.Options) error {
	return func(manager ctrl.Manager, options controller.Options) error {
		if !kinds.Has(foreignkinds.ClusterProfiles) {
			return nil
		}
		return inventory.Add(manager, inventory.Described{
			Name: "clusterprofile", Kind: foreignkinds.ClusterProfiles, Object: &clusterprofilev1alpha1.ClusterProfile{}, Installed: kinds,
			Reconciler: func(access inventory.Access) (reconcile.Reconciler, error) {
				return New(Deps{Access: access, Recorder: recorder, Clock: now})
			},
		}, options)
	}
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster, existing := &v1alpha1.Cluster{}, &clusterprofilev1alpha1.ClusterProfile{}
	if err := c.Clusters.Get(ctx, client.ObjectKey{Name: request.Name}, cluster); apierrors.IsNotFound(err) {
		cluster = nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting cluster %s: %w", request.Name, err)
	}
	if err := c.Objects.Get(ctx, client.ObjectKey{Namespace: v1alpha1.HubNamespace, Name: request.Name}, existing); apierrors.IsNotFound(err) {
		existing = nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("getting ClusterProfile %s: %w", request.Name, err)
	}
	wait, err := c.settleProfile(ctx, cluster, existing)
	if apierrors.IsConflict(err) {
		// A write that rested on a stale read, which is nothing to tell an operator.
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	return reconcile.Result{RequeueAfter: wait}, inventory.IgnoreGone(err)
}

// settleProfile makes existing show cluster; either may be nil. It returns when to look again for what can wait.
func (c *Controller) settleProfile(ctx context.Context, cluster *v1alpha1.Cluster, existing *clusterprofilev1alpha1.ClusterProfile) (time.Duration, error) {
	ours := existing != nil && inventory.IsOwn(existing, cluster != nil && cluster.DeletionTimestamp == nil)
	switch {
	case ours && existing.DeletionTimestamp != nil:
		return 0, nil // A finalizer holds it; it is recreated once it is gone.
	case cluster == nil || cluster.DeletionTimestamp != nil:
		if ours {
			return 0, inventory.Remove(ctx, c.Client, existing, isShown)
		}
		return 0, nil
	case existing != nil && !ours:
		conflict := conflictEvent(cluster.Name)
		c.events.Send(c.Recorder, cluster.Name, cluster, &conflict)
		return 0, nil
	}
	c.events.Send(c.Recorder, cluster.Name, cluster, nil)
	return c.writeProfile(ctx, existing, newProfile(cluster, existing, c.Clock.Now()))
}

// writeProfile makes existing, if any, like wanted.
func (c *Controller) writeProfile(ctx context.Context, existing, wanted *clusterprofilev1alpha1.ClusterProfile) (time.Duration, error) {
	if existing == nil {
		existing = wanted.DeepCopy()
		if err := c.Client.Create(ctx, existing, inventory.FieldManager); apierrors.IsAlreadyExists(err) {
			return 0, nil // The cache will show whose it is, and wake us.
		} else if err != nil {
			return 0, fmt.Errorf("creating ClusterProfile %s: %w", wanted.Name, err)
		}
		status := wanted.Status
		wanted = existing.DeepCopy()
		wanted.Status = status
		inventory.RecordOwnership(wanted)
	}
	differs := inventory.Difference{
		Spec: !equality.Semantic.DeepEqual(existing.Spec, wanted.Spec), Status: !sameStatus(&existing.Status, &wanted.Status),
	}
	var wait time.Duration
	if differs.Status {
		wait = c.throttle.Delay(existing.UID, !onlyCapacity(&existing.Status, &wanted.Status), c.Clock.Now())
		differs.Status = wait == 0
	}
	return wait, inventory.Put(ctx, c.Client, existing, wanted, differs)
}

func sameStatus(before, after *clusterprofilev1alpha1.ClusterProfileStatus) bool {
	return equality.Semantic.DeepEqual(before, after)
}

// isShown reports whether a Cluster is one that has a ClusterProfile.
func isShown(cluster *v1alpha1.Cluster) bool { return cluster.DeletionTimestamp == nil }

func conflictEvent(name string) reconciler.Event {
	return reconciler.WarningEvent("ClusterProfileConflict", "Show", fmt.Sprintf(
		"ClusterProfile %s/%s exists and was not created by the hub, so it is unchanged: the cluster has no ClusterProfile. If it is a copy of one that the hub created, delete it", v1alpha1.HubNamespace, name))
}
