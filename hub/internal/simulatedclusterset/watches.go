package simulatedclusterset

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// SetupWithManager lets manager run the controller.
func (c *Controller) SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	all := handler.EnqueueRequestsFromMapFunc(c.allSets)
	err := builder.ControllerManagedBy(manager).
		For(&v1alpha1.SimulatedClusterSet{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		// One of others may take a name or give it back, so every change concerns every set: there are a few.
		Watches(&v1alpha1.SimulatedCluster{}, all, builder.WithPredicates(memberChanged())).
		Watches(&v1alpha1.FleetApproval{}, all).
		Watches(&v1alpha1.Cluster{}, all, builder.WithPredicates(hostChanged())).
		WatchesRawSource(source.Channel(c.Agents.News(), all)).
		WithOptions(options).
		Complete(reconciler.New(manager.GetClient(), manager.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting the SimulatedClusterSet controller up: %w", err)
	}
	return nil
}

func (c *Controller) allSets(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &v1alpha1.SimulatedClusterSetList{}
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing simulated cluster sets to wake")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconciler.Request("", list.Items[i].Name))
	}
	return requests
}

// memberChanged lets changes of a SimulatedCluster pass that a decision or the counts rest on.
func memberChanged() predicate.Predicate {
	return reconciler.Changed(func(one *v1alpha1.SimulatedCluster) any {
		said := map[string]any{}
		for _, kind := range []string{v1alpha1.ReadyCondition, v1alpha1.ControlPlaneReadyCondition} {
			if found := meta.FindStatusCondition(one.Status.Conditions, kind); found != nil {
				said[kind] = []any{found.Status, found.Reason, found.ObservedGeneration}
			}
		}
		return []any{
			one.Generation, one.Labels, one.OwnerReferences, one.DeletionTimestamp, one.DecodeError, one.Annotations[v1alpha1.ScaleDownDisabledAnnotation],
			one.Annotations[v1alpha1.FreezeAnnotation], one.Annotations[v1alpha1.FleetRecordAnnotation], one.Status.ObservedGeneration, one.Status.Versions, said,
		}
	})
}

// hostChanged lets changes of a Cluster pass that decide whether it can host something.
func hostChanged() predicate.Predicate {
	return reconciler.Changed(func(cluster *v1alpha1.Cluster) any {
		says := map[string]metav1.ConditionStatus{}
		for _, kind := range []string{
			v1alpha1.ClusterAgentConnectedCondition, v1alpha1.FrozenCondition, v1alpha1.ClusterAgentFrozenCondition, v1alpha1.ClusterAcceptedCondition,
			v1alpha1.ClusterSimulatedClustersAllowedCondition,
		} {
			if found := meta.FindStatusCondition(cluster.Status.Conditions, kind); found != nil {
				says[kind] = found.Status
			}
		}
		return []any{cluster.Labels, cluster.Annotations, cluster.Accepted(), cluster.DeletionTimestamp, cluster.DecodeError, says}
	})
}
