package machineset

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// fillReplicas writes spec.replicas where it is left out, before anything is decided: as many Machines as there are. It reports whether
// it was left out; its event requeues the set.
func (c *Controller) fillReplicas(ctx context.Context, set *v1alpha1.MachineSet) (filled bool, err error) {
	if set.Spec.Replicas != nil || set.DeletionTimestamp != nil {
		return false, nil
	}
	there, known := 0, map[string]bool{}
	isOwn := func(machine *v1alpha1.Machine) bool {
		controller := metav1.GetControllerOfNoCopy(machine)
		return controller != nil && controller.UID == set.UID ||
			controller == nil && machine.Labels[v1alpha1.MachineSetNameLabel] == set.Name
	}
	err = machinesOf(c.Client, set.Namespace)(ctx, func(machine *v1alpha1.Machine) { known[machine.Name] = isOwn(machine) })
	if err != nil {
		return false, fmt.Errorf("looking for machines to keep the replicas: %w", err)
	}
	maps.DeleteFunc(known, func(_ string, own bool) bool { return !own })
	labels := client.MatchingLabels{v1alpha1.MachineSetNameLabel: set.Name}
	err = machines.EachOf(ctx, c.Live, set.Namespace, labels, known, func(machine *v1alpha1.Machine) {
		// One that is being replaced has its place still.
		_, remediated := machine.Annotations[v1alpha1.RemediationAnnotation]
		if isOwn(machine) && (machine.DeletionTimestamp == nil || remediated) {
			there++
		}
	})
	if err != nil {
		return false, fmt.Errorf("counting machines to keep the replicas: %w", err)
	}
	after := set.DeepCopy()
	after.Spec.Replicas = new(machines.KeepReplicas(set, there, set.Status.ObservedGeneration == 0))
	if err := c.Client.Patch(ctx, after, reconciler.MergeFromWithLock(set)); err != nil {
		return false, fmt.Errorf("keeping the replicas of machine set %s: %w", set.Name, err)
	}
	return true, nil
}
