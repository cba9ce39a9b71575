package simulatedcluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// SetupWithManager lets manager run the controller.
func (c *Controller) SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	gone := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
	})
	ofNamespace := handler.EnqueueRequestsFromMapFunc(c.ofNamespace)
	concerned := handler.EnqueueRequestsFromMapFunc(c.ofCluster)
	build := builder.ControllerManagedBy(manager).
		For(&v1alpha1.SimulatedCluster{}).
		Watches(&v1alpha1.Cluster{}, concerned, builder.WithPredicates(clusterChanged())).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(ofProof), gone).
		WatchesRawSource(source.Channel(c.Agents.News(), concerned))
	for _, kind := range []client.Object{&v1alpha1.MachineDeployment{}, &v1alpha1.MachineSet{}, &v1alpha1.Machine{}, &v1alpha1.LoadTestRun{}} {
		build = build.Watches(kind, ofNamespace, gone)
	}
	if err := build.WithOptions(options).Complete(reconciler.New(manager.GetClient(), manager.GetClient(), c)); err != nil {
		return fmt.Errorf("setting the SimulatedCluster controller up: %w", err)
	}
	return nil
}

// ofProof is the SimulatedCluster for which the hub made an object.
func ofProof(_ context.Context, object client.Object) []reconcile.Request {
	if namespace, _, found := strings.Cut(object.GetAnnotations()[v1alpha1.SimulatedClusterAnnotation], "/"); found {
		return []reconcile.Request{reconciler.Request(namespace, object.GetName())}
	}
	return nil
}

// ofNamespace is the SimulatedCluster in whose Cluster's namespace an object is.
func (c *Controller) ofNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	cluster, err := readCluster(ctx, c.Client, object.GetNamespace())
	if err != nil || cluster == nil {
		return nil
	}
	return ofProof(ctx, cluster)
}

// ofCluster are the SimulatedClusters that a Cluster hosts, and those that have its name.
func (c *Controller) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	list := &v1alpha1.SimulatedClusterList{}
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing simulated clusters to wake")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if one := &list.Items[i]; one.Namespace == cluster.GetName() || one.Name == cluster.GetName() {
			requests = append(requests, reconciler.Request(one.Namespace, one.Name))
		}
	}
	return requests
}

// clusterChanged lets changes of a Cluster pass that a step or a report rests on.
func clusterChanged() predicate.Predicate {
	return reconciler.Changed(func(cluster *v1alpha1.Cluster) any {
		facts := []any{cluster.Labels, cluster.Annotations, cluster.Accepted(), cluster.DeletionTimestamp, cluster.Status.Namespace}
		for _, kind := range []string{
			v1alpha1.ReadyCondition, v1alpha1.FrozenCondition, v1alpha1.ClusterAgentFrozenCondition, v1alpha1.ClusterAgentConnectedCondition,
			v1alpha1.ClusterAcceptedCondition, v1alpha1.ClusterSimulatedClustersAllowedCondition,
		} {
			if found := meta.FindStatusCondition(cluster.Status.Conditions, kind); found != nil {
				facts = append(facts, kind, found.Status, found.Reason, found.Message)
			}
		}
		return facts
	})
}
