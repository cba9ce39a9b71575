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
	"github.com/hollowfleet/hollowfleet/internal/certrequest"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// SetupWithManager lets manager run the controller.
func (c *Controller) SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	err := builder.ControllerManagedBy(manager).
		Named("registration").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(predicate.NewPredicateFuncs(isCandidate))).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.requestsOf), builder.WithPredicates(acceptanceChanged())).
		Watches(&v1alpha1.SimulatedCluster{}, handler.EnqueueRequestsFromMapFunc(requestOfHosted), builder.WithPredicates(removalChanged())).
		WithOptions(options).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting the registration controller up: %w", err)
	}
	return nil
}

// isCandidate lets requests pass that may be an agent's and that are neither approved nor denied. The name only filters:
// what it tells is checked when it is decided.
func isCandidate(object client.Object) bool {
	csr, ok := object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return false
	}
	_, _, ours := certrequest.ParseName(csr.Name)
	return ours && certrequest.Open(csr)
}

// requestsOf are the requests that a Cluster may decide: its agent's own, that of its host's agent for it, and those of its agent
// for the simulated clusters that it hosts.
func (c *Controller) requestsOf(ctx context.Context, object client.Object) []reconcile.Request {
	cluster, ok := object.(*v1alpha1.Cluster)
	if !ok {
		return nil
	}
	requests := []reconcile.Request{reconciler.Request("", certrequest.NameOfAgent(cluster.Name))}
	if host := simulatedIn(cluster); host != "" {
		requests = append(requests, reconciler.Request("", certrequest.NameOfHostedAgent(host, cluster.Name)))
	}
	hosted := &v1alpha1.SimulatedClusterList{}
	if err := c.Client.List(ctx, hosted, client.InNamespace(cluster.Name), client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing the simulated clusters of a host, to wake their requests", "Cluster", cluster.Name)
	}
	for i := range hosted.Items {
		requests = append(requests, requestOfHosted(ctx, &hosted.Items[i])...)
	}
	return requests
}

func requestOfHosted(_ context.Context, hosted client.Object) []reconcile.Request {
	return []reconcile.Request{reconciler.Request("", certrequest.NameOfHostedAgent(hosted.GetNamespace(), hosted.GetName()))}
}

// acceptanceFacts are what a request that waits, or a spent token, depends on.
type acceptanceFacts struct {
	accepted, denied, deleting, leaving, connected bool
	proof                                          string
}

// acceptanceChanged lets changes of a Cluster pass that may decide a request that waits, or that show that its token is spent.
func acceptanceChanged() predicate.Predicate {
	facts := func(object client.Object) acceptanceFacts {
		cluster, ok := object.(*v1alpha1.Cluster)
		if !ok {
			return acceptanceFacts{}
		}
		return acceptanceFacts{
			accepted: cluster.Accepted(), denied: cluster.Spec.Acceptance == v1alpha1.AcceptanceDenied,
			deleting: cluster.DeletionTimestamp != nil, leaving: cluster.IsLeaving(),
			connected: meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition),
			proof:     cluster.Annotations[v1alpha1.SimulatedClusterAnnotation],
		}
	}
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return facts(e.ObjectOld) != facts(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// removalChanged lets SimulatedClusters pass that are new, and those whose removal has started.
func removalChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
