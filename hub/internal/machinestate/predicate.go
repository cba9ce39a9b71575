package machinestate

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Changed lets changes of a Machine pass that can change a count or an owner, and no other changes of it.
func Changed() predicate.Predicate {
	return reconciler.Changed(func(machine *v1alpha1.Machine) any {
		ready := time.Time{}
		if condition := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.ReadyCondition); condition != nil {
			ready = condition.LastTransitionTime.Time
		}
		return []any{Of(machine, 0, time.Time{}), ready, machine.OwnerReferences, machine.Labels}
	})
}
