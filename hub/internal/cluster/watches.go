package cluster

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager lets manager run the controller.
func (c *Controller) SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	ofLabel := handler.EnqueueRequestsFromMapFunc(clusterOf)
	err := builder.ControllerManagedBy(manager).
		For(&v1alpha1.Cluster{}).
		Watches(&v1alpha1.Cluster{}, c.watchOrphans()).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(requestByName)).
		Watches(&rbacv1.RoleBinding{}, ofLabel).
		Watches(&rbacv1.ClusterRole{}, ofLabel).
		Watches(&rbacv1.ClusterRoleBinding{}, ofLabel).
		Watches(&corev1.ServiceAccount{}, ofLabel).
		Watches(&v1alpha1.SimulatedCluster{}, handler.EnqueueRequestsFromMapFunc(hostOf), builder.WithPredicates(newOrGone())).
		Watches(&coordinationv1.Lease{}, c.watchLeases()).
		WatchesRawSource(source.Func(c.watchSilences)).
		WatchesRawSource(source.Func(c.watchRepairs)).
		Watches(&v1alpha1.Machine{}, watchCounts(), builder.WithPredicates(machines.Changed())).
		WithOptions(options).
		Complete(reconciler.New(manager.GetClient(), manager.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting the Cluster controller up: %w", err)
	}
	return nil
}

func clusterOf(_ context.Context, object client.Object) []reconcile.Request {
	if name := object.GetLabels()[v1alpha1.ClusterNameLabel]; name != "" {
		return []reconcile.Request{reconciler.Request("", name)}
	}
	return nil
}

func requestByName(_ context.Context, namespace client.Object) []reconcile.Request {
	return []reconcile.Request{reconciler.Request("", namespace.GetName())}
}

// hostOf is the Cluster that hosts a simulated one.
func hostOf(_ context.Context, hosted client.Object) []reconcile.Request {
	return []reconcile.Request{reconciler.Request("", hosted.GetNamespace())}
}

// newOrGone lets objects pass that are created or deleted: the access of an agent depends on the names only.
func newOrGone() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// watchOrphans tells of orphans when they are reported. The two statuses are known here alone: a hub that starts later does
// not tell again.
func (c *Controller) watchOrphans() handler.EventHandler {
	return handler.Funcs{UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
		before, was := e.ObjectOld.(*v1alpha1.Cluster)
		after, is := e.ObjectNew.(*v1alpha1.Cluster)
		if !was || !is {
			return
		}
		if found, told := orphansEvent(before.Status.Orphans, after.Status.Orphans); told {
			found.Send(c.Recorder, after)
		}
	}}
}

// watchLeases notes every renewal and wakes a Cluster only for one that is news.
func (c *Controller) watchLeases() handler.EventHandler {
	note := func(object client.Object, initial bool, q queue) {
		lease, ok := object.(*coordinationv1.Lease)
		if !ok || lease.Name != v1alpha1.AgentLeaseName {
			return
		}
		news := c.heartbeats.observeLease(lease, initial, c.Clock.Now())
		if !c.heartbeats.isRenewed(lease.Namespace) {
			c.Agents.Forget(lease.Namespace)
		}
		if news {
			q.Add(reconciler.Request("", lease.Namespace))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { note(e.Object, e.IsInInitialList, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { note(e.ObjectNew, false, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			if e.Object.GetName() == v1alpha1.AgentLeaseName {
				c.heartbeats.forgetNamespace(e.Object.GetNamespace())
			}
		},
	}
}

// watchSilences wakes a Cluster when its agent has fallen silent.
func (c *Controller) watchSilences(ctx context.Context, q queue) error {
	go c.heartbeats.watchSilence(ctx, c.Clock, func(cluster string) { q.Add(reconciler.Request("", cluster)) })
	return nil
}

// watchRepairs wakes a Cluster when an object of it cannot be decoded, or can be again.
func (c *Controller) watchRepairs(_ context.Context, q queue) error {
	if c.Undecodable != nil {
		c.Undecodable.Notify(func(namespace string) { q.Add(reconciler.Request("", namespace)) })
	}
	return nil
}

// watchCounts wakes a Cluster for its Machines, many changes at once.
func watchCounts() handler.EventHandler {
	wakeLater := func(machine client.Object, q queue) {
		q.AddAfter(reconciler.Request("", machine.GetNamespace()), reconciler.StatusInterval)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { wakeLater(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { wakeLater(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { wakeLater(e.Object, q) },
	}
}
