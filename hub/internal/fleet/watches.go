package fleet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/placement/presence"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// SetupWithManager lets manager run the controller.
func (c *Controller) SetupWithManager(manager ctrl.Manager, options controller.Options) error {
	name := func(object client.Object) []string { return []string{object.GetName()} }
	if err := manager.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.MachineDeployment{}, rollout.DeploymentName, name); err != nil {
		return fmt.Errorf("indexing MachineDeployments by name: %w", err)
	}
	if err := indexApprovals(manager.GetFieldIndexer()); err != nil {
		return err
	}
	err := c.Placements.Watch(builder.ControllerManagedBy(manager), c.ofPlacement).
		For(&v1alpha1.MachineFleet{}).
		Watches(&v1alpha1.MachineDeployment{}, handler.EnqueueRequestsFromMapFunc(ofDeployment)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.ofConfigMap)).
		Watches(&v1alpha1.FleetApproval{}, handler.EnqueueRequestsFromMapFunc(ofApproval)).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(predicate.Or(
			freeze.ClusterChanged(), membershipChanged()))).
		// What is waited for, where control planes and kubelets are upgraded together.
		Watches(&v1alpha1.SimulatedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(c.Agents.News(), handler.EnqueueRequestsFromMapFunc(c.ofCluster))).
		WithOptions(options).
		Complete(reconciler.New(manager.GetClient(), manager.GetClient(), c))
	if err != nil {
		return fmt.Errorf("setting the MachineFleet controller up: %w", err)
	}
	return nil
}

// ofDeployment is the fleet of a MachineDeployment's name: it is that fleet's, or in its way. Where there is none, nothing
// is done.
func ofDeployment(_ context.Context, deployment client.Object) []reconcile.Request {
	return []reconcile.Request{reconciler.Request("", deployment.GetName())}
}

// indexApprovals lets the cache list the approvals of one rollout of one fleet. One that could not be decoded is of none.
func indexApprovals(indexer client.FieldIndexer) error {
	for field, value := range map[string]func(*v1alpha1.FleetApproval) string{
		rollout.ApprovalFleet:   func(a *v1alpha1.FleetApproval) string { return a.Spec.FleetUID },
		rollout.ApprovalRollout: func(a *v1alpha1.FleetApproval) string { return fmt.Sprint(a.Spec.Rollout) },
	} {
		err := indexer.IndexField(context.Background(), &v1alpha1.FleetApproval{}, field, func(object client.Object) []string {
			if a, is := object.(*v1alpha1.FleetApproval); is && a.NotDecoded() == "" {
				return []string{value(a)}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("indexing FleetApprovals by %s: %w", field, err)
		}
	}
	return nil
}

// ofApproval is the fleet that an approval names.
func ofApproval(_ context.Context, object client.Object) []reconcile.Request {
	if a, is := object.(*v1alpha1.FleetApproval); is && a.Spec.Fleet != "" {
		return []reconcile.Request{reconciler.Request("", a.Spec.Fleet)}
	}
	return nil
}

// ofCluster are all fleets: a change of its labels may concern any of them.
func (c *Controller) ofCluster(ctx context.Context, _ client.Object) []reconcile.Request {
	return c.requestsFor(ctx, func(*v1alpha1.MachineFleet) bool { return true })
}

// ofConfigMap are the fleets whose clusters may get a kubelet configuration that they lacked.
func (c *Controller) ofConfigMap(ctx context.Context, _ client.Object) []reconcile.Request {
	return c.requestsFor(ctx, func(fleet *v1alpha1.MachineFleet) bool {
		return fleet.Spec.Template.Spec.Template.Spec.ConfigSource != nil || len(fleet.Spec.Overrides) > 0
	})
}

// ofPlacement are the fleets that refer to a Placement.
func (c *Controller) ofPlacement(ctx context.Context, changed v1alpha1.PlacementReference) []reconcile.Request {
	return c.requestsFor(ctx, func(fleet *v1alpha1.MachineFleet) bool { return presence.Concerns(changed, fleet.Spec.PlacementRef) })
}

// requestsFor are those that are wanted.
func (c *Controller) requestsFor(ctx context.Context, wanted func(*v1alpha1.MachineFleet) bool) []reconcile.Request {
	list := &v1alpha1.MachineFleetList{}
	if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		reconciler.ReportUnwoken(ctx, err, "Listing machine fleets to wake")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			requests = append(requests, reconciler.Request("", list.Items[i].Name))
		}
	}
	return requests
}

// membershipChanged lets changes of a Cluster pass that change to which fleets it belongs, whether they wait for it, and what
// they check before and after they start a template there.
func membershipChanged() predicate.Predicate {
	return reconciler.Changed(func(cluster *v1alpha1.Cluster) any {
		return []any{
			cluster.Labels, cluster.Accepted(), cluster.IsLeaving(), cluster.Status.KubernetesVersion,
			cluster.Status.PodQuota, statusesOf(cluster.Status.Conditions),
		}
	})
}

// statusesOf is what conditions say, without when they did. Any of them may be one that a fleet rests on.
func statusesOf(conditions []metav1.Condition) map[string]string {
	says := map[string]string{}
	for _, condition := range conditions {
		says[condition.Type] = string(condition.Status) + condition.Reason
		if condition.Type == v1alpha1.ClusterDisruptionAllowedCondition {
			says[condition.Type] += condition.Message
		}
	}
	return says
}
