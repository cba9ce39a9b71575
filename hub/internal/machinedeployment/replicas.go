package machinedeployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
)

// fillReplicas writes spec.replicas where it is left out, before anything is decided. A default of the schema would scale down what
// another owner has scaled up, as soon as a manifest does not name the field any more. It reports whether it was left out; its
// event requeues the deployment.
func (c *Controller) fillReplicas(ctx context.Context, deployment *v1alpha1.MachineDeployment) (filled bool, err error) {
	if deployment.Spec.Replicas != nil || deployment.DeletionTimestamp != nil {
		return false, nil
	}
	cached, err := c.listSets(ctx, deployment.Namespace)
	if err != nil {
		return false, err
	}
	var beside []*v1alpha1.MachineSet
	for i := range cached {
		if countsFor(&cached[i], deployment) {
			beside = append(beside, &cached[i])
		}
	}
	sets, err := c.listSetsLive(ctx, deployment, beside)
	if err != nil {
		return false, fmt.Errorf("keeping the replicas: %w", err)
	}
	for i := range sets {
		if set := &sets[i]; set.NotDecoded() != "" && set.Labels[v1alpha1.MachineDeploymentNameLabel] == deployment.Name {
			return true, nil // How large it is, is not known. It wakes the deployment when it can be decoded.
		}
	}
	sets = slices.DeleteFunc(sets, func(set v1alpha1.MachineSet) bool { return !countsFor(&set, deployment) })
	after := deployment.DeepCopy()
	after.Spec.Replicas = new(machines.KeepReplicas(deployment, sizeOf(sets, deployment), deployment.Status.ObservedGeneration == 0))
	if err := c.patchObject(ctx, deployment, after); err != nil {
		return false, fmt.Errorf("keeping the replicas of machine deployment %s: %w", deployment.Name, err)
	}
	return true, nil
}

// countsFor reports whether set is the deployment's, or will be as soon as it is adopted.
func countsFor(set *v1alpha1.MachineSet, deployment *v1alpha1.MachineDeployment) bool {
	if set.DeletionTimestamp != nil {
		return false
	}
	controller := metav1.GetControllerOf(set)
	if controller != nil {
		return controller.UID == deployment.UID
	}
	own, _ := madeBy(set, deployment.Name)
	return own && isOrphanOf(set, controller, deployment.Name, labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels))
}

// sizeOf is how many replicas the deployment had when its sets were scaled last: in the middle of a rollout they have surge.
func sizeOf(sets []v1alpha1.MachineSet, deployment *v1alpha1.MachineDeployment) int {
	total := 0
	var latest *v1alpha1.MachineSet
	slices.SortFunc(sets, func(a, b v1alpha1.MachineSet) int { return cmp.Compare(revisionOf(&a), revisionOf(&b)) })
	for i := range sets {
		total += setReplicas(&sets[i])
		if setReplicas(&sets[i]) > 0 || total == 0 {
			latest = &sets[i]
		}
	}
	if total == 0 && deployment.Status.Replicas == 0 || latest == nil {
		return total
	}
	if size := sizedFor(latest); size != nil {
		return *size
	}
	return total
}
