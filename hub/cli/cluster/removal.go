package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// removal is what takes the objects of a cluster along: the deletion of their namespace, or that of the hub's kinds.
type removal struct {
	namespace *corev1.Namespace
	// deleting: the namespace is in deletion.
	deleting bool
	// kinds are the plural names of the kinds that are in deletion.
	kinds []string
	// hub says why the hub does not work; empty if it does, or if that cannot be read.
	hub string
}

// findRemoval reads what is being deleted. It is an error if nothing is.
func findRemoval(ctx context.Context, c client.Client, name string) (*removal, error) {
	r := &removal{namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	err := c.Get(ctx, client.ObjectKey{Name: name}, r.namespace)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	exists := err == nil
	r.deleting = exists && r.namespace.DeletionTimestamp != nil
	if r.kinds, err = cmdutil.RemovedKinds(ctx, c); err != nil {
		return nil, err
	}
	if state, err := cmdutil.ReadHubState(ctx, c, time.Now()); err == nil {
		r.hub = state.Problem
	}
	switch {
	case r.deleting || len(r.kinds) > 0:
		return r, nil
	case !exists:
		return nil, cmdutil.NotFound("namespace %s does not exist: there is nothing to do", name)
	}
	if cluster, err := r.heldCluster(ctx, c); err == nil && cluster != nil && r.hub != "" {
		return nil, cmdutil.Refusal("namespace %s is not being deleted. Cluster %s is, and waits for the hub to revoke its agent's access: %s. To remove the whole hub, delete its kinds, and run this again: "+
			"kubectl get crd -o name | grep '\\.%s$' | xargs kubectl delete --wait=false", name, name, r.hub, v1alpha1.GroupVersion.Group)
	}
	return nil, cmdutil.Refusal("namespace %s is not being deleted: its Machines and LoadTestRuns keep their finalizers, which let the agent clean up in the workload cluster", name)
}

// takesKind reports whether objects of a kind are being deleted, by the plural name of the kind.
func (r *removal) takesKind(kind string) bool { return r.deleting || slices.Contains(r.kinds, kind) }

// heldCluster is the Cluster, if it is in deletion and has the hub's finalizer; else nil.
func (r *removal) heldCluster(ctx context.Context, c client.Client) (*metav1.PartialObjectMetadata, error) {
	cluster := &metav1.PartialObjectMetadata{}
	cluster.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Cluster"))
	switch err := c.Get(ctx, client.ObjectKey{Name: r.namespace.Name}, cluster); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Cluster %s: %w", r.namespace.Name, err)
	}
	if cluster.DeletionTimestamp == nil || !slices.Contains(cluster.Finalizers, v1alpha1.ClusterFinalizer) {
		return nil, nil
	}
	cluster.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Cluster"))
	return cluster, nil
}

// releaseCluster takes the hub's finalizer off a Cluster whose kind is being deleted, if the hub that would do it does not work. It returns
// whether the Cluster is gone, or is none of this command's.
func (r *removal) releaseCluster(ctx context.Context, telling *cmdutil.Hub, c client.Client) (gone bool, err error) {
	if !slices.Contains(r.kinds, "clusters") {
		return true, nil
	}
	cluster, err := r.heldCluster(ctx, c)
	if err != nil || cluster == nil || r.hub == "" {
		return cluster == nil, err
	}
	if err := removeFinalizer(ctx, c, cluster, v1alpha1.ClusterFinalizer); err != nil {
		return false, fmt.Errorf("removing the finalizer of Cluster %s: %w", r.namespace.Name, err)
	}
	telling.Say("cluster.hollowfleet.io/%s finalizer removed", r.namespace.Name)
	return true, nil
}
