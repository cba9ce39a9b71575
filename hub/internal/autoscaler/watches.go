package autoscaler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// SetupWithManager lets manager run the controllers of both kinds.
func SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	deployments, err := New[v1alpha1.MachineDeployment](manager.GetClient())
	if err != nil {
		return err
	}
	sets, err := New[v1alpha1.MachineSet](manager.GetClient())
	if err != nil {
		return err
	}
	for name, kind := range map[string]struct {
		object client.Object
		list   func() client.ObjectList
		reconcile.Reconciler
	}{
		"autoscaling-machinedeployment": {&v1alpha1.MachineDeployment{}, func() client.ObjectList { return &v1alpha1.MachineDeploymentList{} }, deployments},
		"autoscaling-machineset":        {&v1alpha1.MachineSet{}, func() client.ObjectList { return &v1alpha1.MachineSetList{} }, sets},
	} {
		users := usersOf(manager.GetClient(), kind.list)
		err := builder.ControllerManagedBy(manager).Named(name).
			For(kind.object, builder.WithPredicates(predicate.Or(
				predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, frozenChanged(),
			))).
			Watches(&v1alpha1.MachineClass{}, handler.EnqueueRequestsFromMapFunc(users), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			WithOptions(ofOneKind(options)).
			Complete(kind)
		if err != nil {
			return fmt.Errorf("setting the controller %s up: %w", name, err)
		}
	}
	return nil
}

// ofOneKind returns options with a rate limiter that no other controller has: a deployment and a set may have one name, and
// the failures of one must not put the other off.
func ofOneKind(options controller.Options) controller.Options {
	if options.RateLimiter != nil {
		options.RateLimiter = reconciler.Retries()
	}
	return options
}

// frozenChanged lets an update pass that freezes or thaws an object.
func frozenChanged() predicate.Predicate {
	frozen := func(object client.Object) any {
		group, _ := groupOf(object)
		if condition := meta.FindStatusCondition(group.conditions, v1alpha1.FrozenCondition); condition != nil {
			return condition.Status
		}
		return nil
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return frozen(e.ObjectOld) != frozen(e.ObjectNew) }}
}

// usersOf maps a class to the objects that refer to it.
func usersOf(c client.Client, newList func() client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, class client.Object) []reconcile.Request {
		list := newList()
		if err := c.List(ctx, list, client.InNamespace(class.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			klog.FromContext(ctx).Error(err, "Listing the users of a machine class", "MachineClass", klog.KObj(class))
			return nil
		}
		var requests []reconcile.Request
		for _, user := range itemsOf(list) {
			group, _ := groupOf(user)
			if reference := group.template.ProviderConfig.ValueRef; reference != nil && reference.Name == class.GetName() {
				requests = append(requests, reconciler.Request(user.GetNamespace(), user.GetName()))
			}
		}
		return requests
	}
}

func itemsOf(list client.ObjectList) []client.Object {
	var items []client.Object
	switch typed := list.(type) {
	case *v1alpha1.MachineDeploymentList:
		for i := range typed.Items {
			items = append(items, &typed.Items[i])
		}
	case *v1alpha1.MachineSetList:
		for i := range typed.Items {
			items = append(items, &typed.Items[i])
		}
	}
	return items
}
