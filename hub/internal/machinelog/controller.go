// Package machinelog removes MachineLogRequests: those that are five minutes old, and those beyond twenty of a namespace, the newest first.
// What they ask for may be secret, and it takes room. Nothing else is kept of them.
package machinelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=machinelogrequests,verbs=get;list;watch;delete

const (
	// lifetime is how long a request is kept, answered or not.
	lifetime = 5 * time.Minute
	// mostKept is how many requests a namespace may have.
	mostKept = 20
)

// Shrink is a transform of the hub's cache: the hub has nothing to do with what is asked and answered.
func Shrink(object any) (any, error) {
	if request, is := object.(*v1alpha1.MachineLogRequest); is {
		request.ManagedFields, request.Annotations = nil, nil
		request.Spec, request.Status = v1alpha1.MachineLogRequestSpec{}, v1alpha1.MachineLogRequestStatus{}
	}
	return object, nil
}

// Setup returns what registers the controller. It works on a namespace at a time.
func Setup(by clock.PassiveClock) func(ctrl.Manager, controller.Options) error {
	return func(mgr ctrl.Manager, options controller.Options) error {
		err := ctrl.NewControllerManagedBy(mgr).Named("machinelog").WithOptions(options).
			Watches(&v1alpha1.MachineLogRequest{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: object.GetNamespace()}}}
			})).
			Complete(&Controller{Client: mgr.GetClient(), Clock: by})
		if err != nil {
			return fmt.Errorf("setting up the controller of requests for logs: %w", err)
		}
		return nil
	}
}

// Controller removes the requests of a namespace, whose name a reconcile.Request has.
type Controller struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, namespace reconcile.Request) (reconcile.Result, error) {
	list := &v1alpha1.MachineLogRequestList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace.Name), client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing requests for logs: %w", err)
	}
	surplus, next := choose(list.Items, c.Clock.Now())
	var problems []error
	for i := range surplus {
		request := &surplus[i]
		if err := c.Client.Delete(ctx, request.DeepCopy(), client.Preconditions{UID: &request.UID}); client.IgnoreNotFound(err) != nil {
			problems = append(problems, fmt.Errorf("deleting request for a log %s: %w", request.Name, err))
		}
	}
	return reconcile.Result{RequeueAfter: next}, errors.Join(problems...)
}

// choose returns the requests that are to go, and after how long the next one is; 0 for none.
func choose(requests []v1alpha1.MachineLogRequest, now time.Time) (surplus []v1alpha1.MachineLogRequest, next time.Duration) {
	sorted := slices.Clone(requests)
	slices.SortFunc(sorted, func(a, b v1alpha1.MachineLogRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	kept := 0
	for i := range sorted {
		left := lifetime - now.Sub(sorted[i].CreationTimestamp.Time)
		switch {
		case sorted[i].DeletionTimestamp != nil:
		case left <= 0 || kept == mostKept:
			surplus = append(surplus, sorted[i])
		default:
			if kept++; next == 0 {
				next = left
			}
		}
	}
	return surplus, next
}
