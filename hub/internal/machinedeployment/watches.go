package machinedeployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// SetupWithManager lets manager run the controller.
func (c *Controller) SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	err := builder.ControllerManagedBy(manager).
		For(&v1alpha1.MachineDeployment{}).
		Watches(&v1alpha1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(c.ofChangedPeer), builder.WithPredicates(sharedSurgeChanged())).
		Watches(&v1alpha1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(c.ofOverlapping), builder.WithPredicates(selectionChanged())).
		Watches(&v1alpha1.MachineSet{}, handler.EnqueueRequestsFromMapFunc(c.ofSet)).
		Watches(&v1alpha1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.ofMachine), builder.WithPredicates(machines.Changed())).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.ofConfigMap)).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(predicate.Or(freeze.ClusterChanged(), versionChanged()))).
		// What a kubelet waits for that is newer than its cluster's control plane.
		Watches(&v1alpha1.SimulatedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.SimulatedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.ofSimulatedSet), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(c.Agents.News(), handler.EnqueueRequestsFromMapFunc(c.ofCluster))).
		WatchesRawSource(source.Channel(c.Sets.News(), handler.EnqueueRequestsFromMapFunc(c.ofSet))).
		WithOptions(options).
		Complete(reconciler.New(manager.GetClient(), manager.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting the MachineDeployment controller up: %w", err)
	}
	return nil
}

// requestsAbove is the deployment of that name, of which a set or Machine has changed, and those that wait for surge of it.
func (c *Controller) requestsAbove(ctx context.Context, namespace, name string) []reconcile.Request {
	requests := []reconcile.Request{reconciler.Request(namespace, name)}
	if !c.surges.anyBeside(namespace, name) {
		return requests
	}
	deployment := &v1alpha1.MachineDeployment{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
		return requests // One that is gone wakes them itself.
	}
	return append(requests, c.ofPeer(ctx, deployment)...)
}

// ofChangedPeer are those that wait when a deployment comes, goes or changes. One that is gone waits for nothing.
func (c *Controller) ofChangedPeer(ctx context.Context, deployment client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(deployment)
	if err := c.Client.Get(ctx, key, &v1alpha1.MachineDeployment{}); apierrors.IsNotFound(err) {
		c.surges.unregisterDeployment(key)
	}
	return c.ofPeer(ctx, deployment)
}

// ofPeer are the deployments that wait for surge which they share with this one.
func (c *Controller) ofPeer(ctx context.Context, object client.Object) []reconcile.Request {
	peer, ok := object.(*v1alpha1.MachineDeployment)
	if !ok || peer.Spec.Strategy.SurgeGroup() == "" || !c.surges.anyBeside(peer.Namespace, peer.Name) {
		return nil
	}
	return c.deploymentsIn(ctx, peer.Namespace, func(other *v1alpha1.MachineDeployment) bool {
		return other.UID != peer.UID && other.Spec.Strategy.SurgeGroup() == peer.Spec.Strategy.SurgeGroup() && c.surges.isWaiting(other)
	})
}

// ofOverlapping are the deployments that one which comes, goes or changes what it selects keeps from acting.
func (c *Controller) ofOverlapping(ctx context.Context, object client.Object) []reconcile.Request {
	deployment, ok := object.(*v1alpha1.MachineDeployment)
	if !ok || deployment.NotDecoded() != "" {
		return nil
	}
	claim := claimOf(deployment)
	return c.deploymentsIn(ctx, deployment.Namespace, func(other *v1alpha1.MachineDeployment) bool {
		return other.NotDecoded() == "" && claimOf(other).WaitsFor(claim)
	})
}

// ofSet is the deployment that owns a set; for an orphan, those that could adopt it, and the one whose name it carries.
func (c *Controller) ofSet(ctx context.Context, set client.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(set)
	if owner != nil && owner.Kind == "MachineDeployment" {
		return c.requestsAbove(ctx, set.GetNamespace(), owner.Name)
	}
	if owner != nil {
		return nil
	}
	return c.deploymentsIn(ctx, set.GetNamespace(), func(deployment *v1alpha1.MachineDeployment) bool {
		return set.GetLabels()[v1alpha1.MachineDeploymentNameLabel] == deployment.Name ||
			labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels).Matches(labels.Set(set.GetLabels()))
	})
}

// ofMachine is the deployment above a Machine: its label says which, else its set does.
func (c *Controller) ofMachine(ctx context.Context, machine client.Object) []reconcile.Request {
	if name := machine.GetLabels()[v1alpha1.MachineDeploymentNameLabel]; name != "" {
		return c.requestsAbove(ctx, machine.GetNamespace(), name)
	}
	owner := metav1.GetControllerOfNoCopy(machine)
	if owner == nil || owner.Kind != "MachineSet" {
		return nil
	}
	set := &v1alpha1.MachineSet{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: machine.GetNamespace(), Name: owner.Name}, set); err != nil {
		return nil // A set that is gone wakes its deployment itself.
	}
	return c.ofSet(ctx, set)
}

func (c *Controller) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return c.deploymentsIn(ctx, cluster.GetName(), func(*v1alpha1.MachineDeployment) bool { return true })
}

// ofSimulatedSet are those in the clusters of a set.
func (c *Controller) ofSimulatedSet(ctx context.Context, set client.Object) []reconcile.Request {
	list := &v1alpha1.SimulatedClusterList{}
	if err := c.Client.List(ctx, list, client.MatchingLabels{v1alpha1.SimulatedClusterSetNameLabel: set.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing simulated clusters to wake their machine deployments", "set", set.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, c.ofCluster(ctx, &list.Items[i])...)
	}
	return requests
}

// deploymentsIn returns the deployments of namespace that wanted picks.
func (c *Controller) deploymentsIn(ctx context.Context, namespace string, wanted func(*v1alpha1.MachineDeployment) bool) []reconcile.Request {
	list := &v1alpha1.MachineDeploymentList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing machine deployments to wake", "namespace", namespace)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			requests = append(requests, reconciler.Request(namespace, list.Items[i].Name))
		}
	}
	return requests
}

// versionChanged lets changes of a Cluster pass that change which kubelets its API server supports.
func versionChanged() predicate.Predicate {
	return reconciler.Changed(func(cluster *v1alpha1.Cluster) any { return cluster.Status.KubernetesVersion })
}

// selectionChanged lets changes of a MachineDeployment pass that change with which others it overlaps.
func selectionChanged() predicate.Predicate {
	return reconciler.Changed(func(deployment *v1alpha1.MachineDeployment) any {
		return []any{deployment.Spec.Selector, deployment.Spec.Template.Metadata.Labels}
	})
}

// sharedSurgeChanged lets changes of a MachineDeployment pass that change how much of a surge it leaves to others.
func sharedSurgeChanged() predicate.Predicate {
	return reconciler.Changed(func(deployment *v1alpha1.MachineDeployment) any {
		group := deployment.Spec.Strategy.SurgeGroup()
		if group == "" {
			return nil
		}
		return []any{group, deployment.Spec.Replicas}
	})
}
