package managedcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/foreignkinds"
	"github.com/hollowfleet/hollowfleet/hub/internal/inventory"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// act carries a plan out. It returns when to look again for what can wait.
func (c *Controller) act(ctx context.Context, in observed, next *plan) (time.Duration, error) {
	var wait time.Duration
	var managedErr, clusterErr, removeErr error
	if next.managed != nil {
		wait, managedErr = c.writeManaged(ctx, in.managed, next.managed)
		if isRefused(managedErr) {
			event := mirrorRefusedEvent(managedErr)
			next.cluster, next.standing = withEvent(in, event), &event
			wait, managedErr = refusedRetry, nil
		}
	}
	if next.cluster != nil {
		clusterErr = c.writeCluster(ctx, in, next)
	}
	if next.remove {
		removeErr = inventory.Remove(ctx, c.Client, in.managed, isMirrored)
	}
	return wait, errors.Join(inventory.IgnoreGone(managedErr), clusterErr, inventory.IgnoreGone(removeErr))
}

// writeManaged makes existing, if any, like wanted. State goes before taints: from the state Open Cluster
// Management's own controller draws the same taints, and so has nothing to undo.
func (c *Controller) writeManaged(ctx context.Context, existing, wanted *clusterv1.ManagedCluster) (time.Duration, error) {
	if existing == nil {
		existing = wanted.DeepCopy()
		if err := c.Client.Create(ctx, existing, inventory.FieldManager); apierrors.IsAlreadyExists(err) {
			return 0, nil // The cache will show whose it is, and wake us.
		} else if err != nil {
			return 0, fmt.Errorf("creating ManagedCluster %s: %w", wanted.Name, err)
		}
		status := wanted.Status
		wanted = existing.DeepCopy()
		wanted.Status = status
		inventory.RecordOwnership(wanted)
	}
	differs := inventory.Difference{
		Spec:   !equality.Semantic.DeepEqual(existing.Spec, wanted.Spec),
		Status: !equality.Semantic.DeepEqual(existing.Status, wanted.Status),
	}
	var wait time.Duration
	if differs.Status {
		wait = c.throttle.Delay(existing.UID, !onlyResources(&existing.Status, &wanted.Status), c.Clock.Now())
		differs.Status = wait == 0
	}
	return wait, inventory.Put(ctx, c.Client, existing, wanted, differs)
}

// isRefused reports whether the API server, or a webhook of Open Cluster Management, does not let the hub write a mirror. That
// is for a person to change, and is not tried again and again.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// writeCluster makes the Cluster, if any, like the planned one.
func (c *Controller) writeCluster(ctx context.Context, in observed, next *plan) error {
	if in.cluster == nil {
		return c.createCluster(ctx, in.managed, next)
	}
	differs := inventory.Difference{Status: !equality.Semantic.DeepEqual(in.cluster.Status, next.cluster.Status)}
	return client.IgnoreNotFound(inventory.Put(ctx, c.Client, in.cluster, next.cluster, differs))
}

// createCluster makes a Cluster from managed. A name that no Cluster can have is said, not tried again and again.
func (c *Controller) createCluster(ctx context.Context, managed *clusterv1.ManagedCluster, next *plan) error {
	err := c.Client.Create(ctx, next.cluster, inventory.FieldManager)
	switch {
	case apierrors.IsAlreadyExists(err): // The cache will show whose it is, and wake us.
		return nil
	case apierrors.IsInvalid(err):
		refused := importRefusedEvent(managed.Name, err)
		next.standing = &refused
		return nil
	case err != nil:
		return fmt.Errorf("creating cluster %s: %w", managed.Name, err)
	}
	importedEvent(managed.Name).Send(c.Recorder, next.cluster)
	return nil
}

// isMirrored reports whether a Cluster is one that has a mirror.
func isMirrored(cluster *v1alpha1.Cluster) bool {
	return cluster.DeletionTimestamp == nil && cluster.Annotations[v1alpha1.ImportedFromAnnotation] != originOf(cluster.Name)
}

// originOf is what the hub writes on a Cluster that it makes from the ManagedCluster of its name.
func originOf(name string) string { return foreignkinds.ManagedClusters.Definition + "/" + name }

func conflictEvent(name string, wanted bool) reconciler.Event {
	note := fmt.Sprintf("ManagedCluster %s exists and was not created by the hub, so it is unchanged: the cluster is not shown in Open Cluster Management. If it is a copy of one that the hub created, delete it there", name)
	if wanted {
		note += fmt.Sprintf(", and the ManagedCluster is ignored, because Cluster %s existed before", name)
	}
	return reconciler.WarningEvent(v1alpha1.ReasonManagedClusterConflict, "Mirror", note)
}

// mirrorRefusedEvent has the remedy before the answer, which may be so long that it is cut.
func mirrorRefusedEvent(err error) reconciler.Event {
	return reconciler.WarningEvent(v1alpha1.ReasonMirrorRefused, "Mirror",
		"The API server refuses the hub's mirror in Open Cluster Management, which is retried every minute. "+
			"If the hub lacks a right, 'hub install' gives it back; else change the webhook or policy that refuses: "+err.Error())
}

func releasedEvent(name string) reconciler.Event {
	return reconciler.WarningEvent("MirrorReleased", "Mirror", fmt.Sprintf(
		"ManagedCluster %s was accepted in Open Cluster Management, so the hub no longer writes the state of the Cluster to it; delete it there to get a mirror again", name))
}

func importedEvent(name string) reconciler.Event {
	return reconciler.NormalEvent("Imported", "Import", fmt.Sprintf(
		"Made from ManagedCluster %s. Label namespace %s with %s=%s and %s=%s to let both use it, then set spec.acceptance",
		name, name, v1alpha1.ManagedByLabel, v1alpha1.ManagedByHub, v1alpha1.ClusterNameLabel, name))
}

func importRefusedEvent(name string, cause error) reconciler.Event {
	return reconciler.WarningEvent("ImportRefused", "Import", fmt.Sprintf("ManagedCluster %s cannot become a Cluster: %v", name, cause))
}

func originGoneEvent(name string) reconciler.Event {
	return reconciler.WarningEvent("ImportOriginGone", "Import", fmt.Sprintf(
		"ManagedCluster %s, from which this Cluster was made, was deleted. The Cluster stays unchanged until a user deletes it", name))
}

func importEndedEvent(name string) reconciler.Event {
	return reconciler.NormalEvent("ImportEnded", "Import", fmt.Sprintf(
		"ManagedCluster %s has no label %s=true any more: its labels are no longer copied, and the Cluster stays unchanged until a user deletes it", name, v1alpha1.ImportLabel))
}
