package machine

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
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

// SetupWithManager lets manager run the controller.
func SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	c, err := New(manager.GetClient())
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(manager).Named("staleness").
		For(&v1alpha1.Cluster{}, builder.WithPredicates(turned())).
		Watches(&v1alpha1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.unmarked), builder.WithPredicates(added())).
		WithOptions(options).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting the staleness controller up: %w", err)
	}
	return nil
}

// turned lets changes of a Cluster pass that change the marker of its Machines.
func turned() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.Cluster)
			if !ok {
				return true
			}
			after, ok := e.ObjectNew.(*v1alpha1.Cluster)
			if !ok {
				return true
			}
			old, knownBefore := Marker(before)
			wanted, known := Marker(after)
			return known && (!knownBefore || !equality.Semantic.DeepEqual(old, wanted))
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// added lets new Machines pass, and nothing else.
func added() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// unmarked asks for the Cluster of a Machine that is not marked as those of its cluster are.
func (c *Controller) unmarked(ctx context.Context, object client.Object) []reconcile.Request {
	machine, ok := object.(*v1alpha1.Machine)
	if !ok {
		return nil
	}
	cluster := &v1alpha1.Cluster{}
	if err := c.client.Get(ctx, client.ObjectKey{Name: machine.Namespace}, cluster); err != nil {
		return nil // Its own event asks for it.
	}
	if wanted, known := Marker(cluster); !known || marked(machine, wanted) {
		return nil
	}
	return []reconcile.Request{reconciler.Request("", cluster.Name)}
}
