package machinedeployment

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/wake"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// SetupWithManager lets manager run the controller.
func (c *Controller) SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	err := builder.ControllerManagedBy(manager).
		For(&v1alpha1.MachineDeployment{}).
		Watches(&v1alpha1.MachineSet{}, handler.EnqueueRequestsFromMapFunc(c.ofSet)).
		Watches(&v1alpha1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.ofMachine), builder.WithPredicates(wake.MachineCounts())).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(wake.ClusterFreeze())).
		WatchesRawSource(source.Channel(c.Agents.News(), handler.EnqueueRequestsFromMapFunc(c.ofCluster))).
		WatchesRawSource(source.Channel(c.Sets.News(), handler.EnqueueRequestsFromMapFunc(c.ofSet))).
		WithOptions(options).
		Complete(reconciler.New(manager.GetClient(), manager.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting the MachineDeployment controller up: %w", err)
	}
	return nil
}

// ofSet is the deployment that owns a set; for an orphan, those that could adopt it.
func (c *Controller) ofSet(ctx context.Context, set client.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(set)
	if owner != nil && owner.Kind == "MachineDeployment" {
		return []reconcile.Request{wake.Request(set.GetNamespace(), owner.Name)}
	}
	if owner != nil {
		return nil
	}
	return c.in(ctx, set.GetNamespace(), func(deployment *v1alpha1.MachineDeployment) bool {
		return labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels).Matches(labels.Set(set.GetLabels()))
	})
}

// ofMachine is the deployment above a Machine: its label says which, else its set does.
func (c *Controller) ofMachine(ctx context.Context, machine client.Object) []reconcile.Request {
	if name := machine.GetLabels()[v1alpha1.MachineDeploymentNameLabel]; name != "" {
		return []reconcile.Request{wake.Request(machine.GetNamespace(), name)}
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
	return c.in(ctx, cluster.GetName(), func(*v1alpha1.MachineDeployment) bool { return true })
}

// in returns the deployments of namespace that wanted picks.
func (c *Controller) in(ctx context.Context, namespace string, wanted func(*v1alpha1.MachineDeployment) bool) []reconcile.Request {
	list := &v1alpha1.MachineDeploymentList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		klog.FromContext(ctx).Error(err, "Listing machine deployments to wake", "namespace", namespace)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			requests = append(requests, wake.Request(namespace, list.Items[i].Name))
		}
	}
	return requests
}
