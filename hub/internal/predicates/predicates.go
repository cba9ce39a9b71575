// Package predicates says which changes of an object are worth waking other controllers for.
package predicates

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinestate"
)

// Request asks for one object.
func Request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// MachineCounts lets changes of a Machine pass that can change a count or an owner, and no other news of it.
func MachineCounts() predicate.Predicate {
	return onChange(func(machine *v1alpha1.Machine) any {
		ready := time.Time{}
		if condition := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ReadyCondition); condition != nil {
			ready = condition.LastTransitionTime.Time
		}
		return []any{machinestate.Of(machine, 0, time.Time{}), ready, machine.OwnerReferences, machine.Labels}
	})
}

// ClusterFreeze lets changes of a Cluster pass that freeze or thaw what belongs to it.
func ClusterFreeze() predicate.Predicate {
	return onChange(func(cluster *v1alpha1.Cluster) any {
		return freeze.OfCluster(cluster.Name, cluster.Name, cluster)
	})
}

// ClusterVersion lets changes of a Cluster pass that change which kubelets its API server supports.
func ClusterVersion() predicate.Predicate {
	return onChange(func(cluster *v1alpha1.Cluster) any { return cluster.Status.KubernetesVersion })
}

// ClusterSelection lets changes of a Cluster pass that change to which fleets it belongs, and whether they wait for it.
func ClusterSelection() predicate.Predicate {
	return onChange(func(cluster *v1alpha1.Cluster) any {
		return []any{cluster.Labels, cluster.Accepted(), meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ReadyCondition)}
	})
}

// DeploymentFreeze lets changes of a MachineDeployment pass that freeze or thaw what belongs to it.
func DeploymentFreeze() predicate.Predicate {
	return onChange(func(deployment *v1alpha1.MachineDeployment) any {
		return freeze.First(
			freeze.OfAnnotation("MachineDeployment", deployment),
			freeze.OfCondition("MachineDeployment", deployment, deployment.Status.Conditions),
		)
	})
}

// SharedSurge lets changes of a MachineDeployment pass that change how much of a surge it leaves to others.
func SharedSurge() predicate.Predicate {
	return onChange(func(deployment *v1alpha1.MachineDeployment) any {
		group := deployment.Spec.Strategy.SurgeGroup()
		if group == "" {
			return nil
		}
		return []any{group, deployment.Spec.Replicas}
	})
}

// onChange lets objects pass that come, that go, or of which facts differ.
func onChange[T client.Object](facts func(T) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(T)
		if !ok {
			return true
		}
		after, ok := e.ObjectNew.(T)
		return !ok || !reflect.DeepEqual(facts(before), facts(after))
	}}
}
