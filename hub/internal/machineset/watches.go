package machineset

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
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
		For(&v1alpha1.MachineSet{}).
		Watches(&v1alpha1.MachineSet{}, handler.EnqueueRequestsFromMapFunc(c.ofOverlapping), builder.WithPredicates(claimChanged())).
		Watches(&v1alpha1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(c.ofOverlapping), builder.WithPredicates(deploymentClaimChanged())).
		Watches(&v1alpha1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.ofMachine), builder.WithPredicates(machineNews())).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(freeze.ClusterChanged())).
		Watches(&v1alpha1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(c.ofDeployment), builder.WithPredicates(freeze.DeploymentChanged())).
		WatchesRawSource(source.Channel(c.Agents.News(), handler.EnqueueRequestsFromMapFunc(c.ofCluster))).
		WithOptions(options).
		Complete(reconciler.New(manager.GetClient(), manager.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting the MachineSet controller up: %w", err)
	}
	return nil
}

// machineNews lets changes of a Machine pass that a set has something to do or to report for.
func machineNews() predicate.Predicate {
	return predicate.Or(machines.Changed(), predicate.AnnotationChangedPredicate{}, predicate.Funcs{
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.Machine)
			if !ok {
				return true
			}
			after, ok := e.ObjectNew.(*v1alpha1.Machine)
			return !ok || judgementOf(before) != judgementOf(after) ||
				!before.Spec.HasTakenOver(&after.Spec.MachineTemplateBody)
		},
	})
}

// judgement is what remediation goes by.
type judgement struct {
	unhealthy, replaceable, comingUp bool
}

func judgementOf(machine *v1alpha1.Machine) judgement {
	return judgement{unhealthy: isUnhealthy(machine), replaceable: isReplaceable(machine), comingUp: comingUp(machine)}
}

// ofMachine is the set that owns a Machine, together with the other sets of its deployment if it is part of a
// replacement: they may be waiting for the end of that. For an orphan, it is those that could adopt it.
func (c *Controller) ofMachine(ctx context.Context, object client.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner != nil && owner.Kind == "MachineSet" {
		own := reconciler.Request(object.GetNamespace(), owner.Name)
		deployment := object.GetLabels()[v1alpha1.MachineDeploymentNameLabel]
		_, remediated := object.GetAnnotations()[v1alpha1.RemediationAnnotation]
		_, replacement := object.GetAnnotations()[v1alpha1.ReplacesAnnotation]
		if deployment == "" || !remediated && !replacement {
			return []reconcile.Request{own}
		}
		return append(c.setsIn(ctx, object.GetNamespace(), func(set *v1alpha1.MachineSet) bool {
			return set.Name != owner.Name && set.Labels[v1alpha1.MachineDeploymentNameLabel] == deployment
		}), own)
	}
	if owner != nil {
		return nil
	}
	return c.setsIn(ctx, object.GetNamespace(), func(set *v1alpha1.MachineSet) bool {
		return labels.SelectorFromSet(set.Spec.Selector.MatchLabels).Matches(labels.Set(object.GetLabels()))
	})
}

func (c *Controller) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return c.setsIn(ctx, cluster.GetName(), func(*v1alpha1.MachineSet) bool { return true })
}

func (c *Controller) ofDeployment(ctx context.Context, deployment client.Object) []reconcile.Request {
	return c.setsIn(ctx, deployment.GetNamespace(), func(set *v1alpha1.MachineSet) bool {
		return metav1.IsControlledBy(set, deployment)
	})
}

// setsIn returns the sets of namespace that wanted picks.
func (c *Controller) setsIn(ctx context.Context, namespace string, wanted func(*v1alpha1.MachineSet) bool) []reconcile.Request {
	list := &v1alpha1.MachineSetList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing machine sets to wake", "namespace", namespace)
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
