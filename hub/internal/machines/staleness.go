package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// +kubebuilder:rbac:groups=hollowfleet.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=hollowfleet.io,resources=machines/status,verbs=patch

const (
	// atOnce is how many Machines of a cluster are marked or unmarked in a row; the next follow after pause. No user waits
	// for a marker, and a cluster of thousands must not hold up the others.
	atOnce = 50
	pause  = time.Second
)

// stalenessController marks the Machines of a cluster while their state is not known: what their agent said last stays, and the condition Stale
// says that it may be true no longer.
type stalenessController struct {
	client client.Client
}

// newStalenessController returns a stalenessController.
func newStalenessController(c client.Client) (*stalenessController, error) {
	if c == nil {
		return nil, errors.New("making the staleness controller: no client")
	}
	return &stalenessController{client: c}, nil
}

// Reconcile implements reconcile.Reconciler. The Machines of a Cluster that does not exist, or is being removed, are stale: no agent
// looks after them. Those of one that cannot be decoded stay as they are.
func (c *stalenessController) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &v1alpha1.Cluster{}
	err := c.client.Get(ctx, request.NamespacedName, cluster)
	if undecodable.Is(err) {
		return reconcile.Result{}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("getting cluster %s: %w", request.Name, err)
	}
	wanted, known := Marker(cluster)
	if err != nil {
		cluster.Name = request.Name
		wanted, known = removedMarker(request.Name, metav1.NewTime(time.Now())), true
	}
	if !known {
		return reconcile.Result{}, nil // What makes it known asks for the cluster again.
	}
	var machines []*v1alpha1.Machine
	err = Each(ctx, c.client, func(machine *v1alpha1.Machine) {
		if machine.Spec.ClusterName == cluster.Name && !hasMarker(machine, wanted) {
			machines = append(machines, machine)
		}
	}, client.InNamespace(cluster.Name), client.UnsafeDisableDeepCopy)
	if err != nil || len(machines) == 0 {
		return reconcile.Result{}, err
	}
	klog.FromContext(ctx).V(2).Info("Marking machines", "stale", wanted != nil, "machines", len(machines))
	for _, machine := range machines[:min(len(machines), atOnce)] {
		if err := c.writeMarker(ctx, machine, wanted); err != nil {
			return reconcile.Result{}, err
		}
	}
	// The cache shows what was written a moment later. Should it show nothing new then, there is no more to do.
	return reconcile.Result{RequeueAfter: pause}, nil
}

// writeMarker changes the marker alone. The agent writes the list of conditions too: with the lock, each of the two puts its
// own into the list that the other has left. A Machine that has changed meanwhile is looked at again after pause.
func (c *stalenessController) writeMarker(ctx context.Context, cached *v1alpha1.Machine, wanted *metav1.Condition) error {
	machine := cached.DeepCopy()
	setMarker(machine, wanted, time.Now())
	err := c.client.Status().Patch(ctx, machine, reconciler.MergeFromWithLock(cached.DeepCopy()))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("marking machine %s: %w", machine.Name, err)
	}
	return nil
}

// Marker is the condition that the Machines of cluster are to carry; nil for none. It is not known while an agent that
// has just started, or come back, has not looked yet: the Machines stay marked, or not, as they are until it has.
func Marker(cluster *v1alpha1.Cluster) (wanted *metav1.Condition, known bool) {
	list := cluster.Status.Conditions
	if cluster.DeletionTimestamp != nil {
		return removedMarker(cluster.Name, *cluster.DeletionTimestamp), true
	}
	if !meta.IsStatusConditionTrue(list, v1alpha1.ClusterJoinedCondition) {
		// There has never been an agent of this Cluster that could have said anything. What was said to one of the same name before
		// that was removed stays stale until the new one has looked.
		return nil, false
	}
	connected := meta.FindStatusCondition(list, v1alpha1.ClusterAgentConnectedCondition)
	if connected != nil && connected.Reason == v1alpha1.ReasonNamespaceDeleting {
		return newMarker(connected.Reason, connected.LastTransitionTime, fmt.Sprintf(
			"Namespace %s is being deleted, and the agent no longer has access to it: the rest of this status is the last reported one", cluster.Name)), true
	}
	if connected != nil && connected.Status != metav1.ConditionTrue {
		return newMarker(v1alpha1.ReasonAgentSilent, connected.LastTransitionTime, fmt.Sprintf(
			"The agent of Cluster %s is silent: the rest of this status is the last reported one", cluster.Name)), true
	}
	target := meta.FindStatusCondition(list, v1alpha1.ClusterTargetReachableCondition)
	if target == nil || target.Status == metav1.ConditionUnknown {
		return nil, false
	}
	if target.Status == metav1.ConditionFalse {
		return newMarker(v1alpha1.ReasonTargetUnreachable, target.LastTransitionTime, fmt.Sprintf(
			"The agent of Cluster %s cannot reach its API server: the rest of this status is the last observed one", cluster.Name)), true
	}
	return nil, !isLooking(list)
}

// removedMarker is the marker of Machines whose Cluster is gone, or about to be.
func removedMarker(cluster string, since metav1.Time) *metav1.Condition {
	return newMarker(v1alpha1.ReasonClusterNotFound, since, fmt.Sprintf(
		"Cluster %s was removed, so no agent manages this Machine: the rest of this status is the last known one. Let the cluster join again with kubectl hollow cluster join %s,"+
			" or delete the namespace", cluster, cluster))
}

// isLooking reports whether the agent says that it has yet to see how its Machines are, or to tell it.
func isLooking(list []metav1.Condition) bool {
	frozen := meta.FindStatusCondition(list, v1alpha1.ClusterAgentFrozenCondition)
	return frozen != nil && frozen.Status == metav1.ConditionTrue && freeze.Blind(frozen.Reason)
}

func newMarker(reason string, since metav1.Time, message string) *metav1.Condition {
	return &metav1.Condition{
		Type: v1alpha1.MachineStaleCondition, Status: metav1.ConditionTrue,
		Reason: reason, Message: message, LastTransitionTime: since,
	}
}

// hasMarker reports whether machine carries wanted; nil for none.
func hasMarker(machine *v1alpha1.Machine, wanted *metav1.Condition) bool {
	found := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineStaleCondition)
	if found == nil || wanted == nil {
		return found == nil && wanted == nil
	}
	if found.Status != wanted.Status || found.Reason != wanted.Reason {
		return false
	}
	// When a Cluster was removed is written once: later, only its Machines know.
	return found.LastTransitionTime.Equal(&wanted.LastTransitionTime) || wanted.Reason == v1alpha1.ReasonClusterNotFound
}

// setMarker puts wanted on machine, or takes the marker off if it is nil. Reconciling and Stalled follow: a Machine whose state
// is not known is neither as its spec says nor failed.
func setMarker(machine *v1alpha1.Machine, wanted *metav1.Condition, now time.Time) {
	list := slices.DeleteFunc(machine.Status.Conditions, func(condition metav1.Condition) bool {
		return condition.Type == v1alpha1.MachineStaleCondition
	})
	if wanted != nil {
		list = append(list, *wanted)
	}
	machine.Status.Conditions = list
	conditions.ReconcileMachine(&machine.Status, machine.DeletionTimestamp != nil, now)
}

// SetupStaleness lets manager run the controller that marks Machines as Stale.
func SetupStaleness(manager ctrl.Manager, options controller.Options) error {
	c, err := newStalenessController(manager.GetClient())
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(manager).Named("staleness").
		For(&v1alpha1.Cluster{}, builder.WithPredicates(markerChanged())).
		Watches(&v1alpha1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.requestsForUnmarked), builder.WithPredicates(machineAdded())).
		WithOptions(options).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting the staleness controller up: %w", err)
	}
	return nil
}

// markerChanged lets changes of a Cluster pass that change the marker of its Machines.
func markerChanged() predicate.Predicate {
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
	}
}

// machineAdded lets new Machines pass, and nothing else.
func machineAdded() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// requestsForUnmarked asks for the Cluster of a Machine that is not marked as those of its cluster are.
func (c *stalenessController) requestsForUnmarked(ctx context.Context, object client.Object) []reconcile.Request {
	machine, ok := object.(*v1alpha1.Machine)
	if !ok {
		return nil
	}
	cluster := &v1alpha1.Cluster{}
	err := c.client.Get(ctx, client.ObjectKey{Name: machine.Namespace}, cluster)
	if apierrors.IsNotFound(err) {
		// At a start, Clusters may come into the cache after Machines: Reconcile looks again.
		return []reconcile.Request{reconciler.Request("", machine.Namespace)}
	}
	if err != nil {
		return nil // Its own event asks for it.
	}
	if wanted, known := Marker(cluster); !known || hasMarker(machine, wanted) {
		return nil
	}
	return []reconcile.Request{reconciler.Request("", cluster.Name)}
}
