package csrapprover

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
func (c *Controller) SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	err := builder.ControllerManagedBy(manager).
		Named("registration").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(predicate.NewPredicateFuncs(candidate))).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(requestOf), builder.WithPredicates(acceptance())).
		WithOptions(options).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting the registration controller up: %w", err)
	}
	return nil
}

// candidate lets requests pass that may be an agent's and that are neither approved nor denied. The name only filters:
// what it tells is checked when it is decided.
func candidate(object client.Object) bool {
	csr, ok := object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return false
	}
	_, ours := ClusterOf(csr.Name)
	return ours && Open(csr)
}

func requestOf(_ context.Context, cluster client.Object) []reconcile.Request {
	return []reconcile.Request{reconciler.Request("", RequestOf(cluster.GetName()))}
}

// acceptance lets changes of a Cluster pass that may decide a request that waits, or that show that its token is spent.
func acceptance() predicate.Predicate {
	facts := func(object client.Object) [4]bool {
		cluster, ok := object.(*v1alpha1.Cluster)
		if !ok {
			return [4]bool{}
		}
		return [4]bool{cluster.Accepted(), cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied, cluster.DeletionTimestamp != nil,
			meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition)}
	}
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return facts(e.ObjectOld) != facts(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
