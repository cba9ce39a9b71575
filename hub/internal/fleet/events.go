package fleet

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func adoptedEvent(d *v1alpha1.MachineDeployment) reconciler.Event {
	return reconciler.NormalEvent("MachineDeploymentAdopted", "Adopt", fmt.Sprintf(
		"Adopted MachineDeployment %s/%s and applied the template to it", d.Namespace, d.Name))
}

// correctedEvent names the fields that the fleet has written. Another writer has changed them, or the fleet has other values now.
func correctedEvent(d *v1alpha1.MachineDeployment, fields []string) reconciler.Event {
	return reconciler.NormalEvent("MachineDeploymentCorrected", "Correct", fmt.Sprintf(
		"Corrected %s of MachineDeployment %s/%s: the fleet owns the fields that it sets, so change them in the fleet. Fields that the fleet does not set are unchanged",
		cmp.Or(reconciler.ListFew(fields), "the fields"), d.Namespace, d.Name))
}

func rolledBackEvent(d *v1alpha1.MachineDeployment, r *rollout.Record) reconciler.Event {
	text := fmt.Sprintf("Rolled MachineDeployment %s/%s back to revision %s, which it had before %s", d.Namespace, d.Name, r.Previous, r.Revision)
	if r.Cause != "" {
		text += ", because it failed: " + r.Cause
	}
	return reconciler.WarningEvent("MachineDeploymentRolledBack", "RollBack", text)
}

func removedEvent(d *v1alpha1.MachineDeployment) reconciler.Event {
	return reconciler.NormalEvent("MachineDeploymentDeleted", "Delete", fmt.Sprintf(
		"Deleted MachineDeployment %s/%s: its cluster has left the fleet, and spec.removalPolicy is Delete", d.Namespace, d.Name))
}

// progressEvent tells of a turn of the Progressing condition; nil if there is nothing to tell.
func progressEvent(before, after *metav1.Condition, revision string) *reconciler.Event {
	if before == nil || after == nil || before.Reason == after.Reason {
		return nil
	}
	switch after.Reason {
	case v1alpha1.ReasonRollingOut:
		return new(reconciler.NormalEvent("RolloutStarted", "Rollout", "Rolling out revision "+revision+": "+after.Message))
	case v1alpha1.ReasonRolloutComplete:
		return new(reconciler.NormalEvent("RolloutCompleted", "Rollout", after.Message))
	case v1alpha1.ReasonPaused:
		return new(reconciler.NormalEvent("RolloutPaused", "Rollout", after.Message))
	case v1alpha1.ReasonAwaitingApproval:
		return new(reconciler.NormalEvent("RolloutAwaitsApproval", "Rollout", after.Message))
	case v1alpha1.ReasonOutsideMaintenanceWindow:
		return new(reconciler.NormalEvent("RolloutAwaitsWindow", "Rollout", after.Message))
	case v1alpha1.ReasonClustersHeld:
		return new(reconciler.NormalEvent("RolloutAwaitsClusters", "Rollout", after.Message))
	}
	return new(reconciler.WarningEvent(after.Reason, "Rollout", after.Message))
}

// emitProgress sends an event when the status, which is about to be stored, says something else of the rollout than before.
func (c *Controller) emitProgress(fleet *v1alpha1.MachineFleet, before *v1alpha1.MachineFleetStatus) {
	old := meta.FindStatusCondition(before.Conditions, v1alpha1.ProgressingCondition)
	now := meta.FindStatusCondition(fleet.Status.Conditions, v1alpha1.ProgressingCondition)
	if told := progressEvent(old, now, fleet.Status.Revision); told != nil {
		emitEvent(c.Recorder, fleet, *told)
	}
}

// emitEvent sends an event about a fleet.
func emitEvent(recorder events.EventRecorder, fleet *v1alpha1.MachineFleet, e reconciler.Event) {
	e.Send(recorder, &v1alpha1.MachineFleet{ObjectMeta: metav1.ObjectMeta{Name: fleet.Name, UID: fleet.UID}})
}
