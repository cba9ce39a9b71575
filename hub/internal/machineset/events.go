package machineset

import (
	"fmt"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func createdEvent(count int) reconciler.Event {
	return reconciler.NormalEvent("MachinesCreated", "Create", "Created "+machines(count))
}

func adoptedEvent(count int) reconciler.Event {
	return reconciler.NormalEvent("MachinesAdopted", "Adopt", "Adopted "+machines(count))
}

func releasedEvent(count int) reconciler.Event {
	return reconciler.NormalEvent("MachinesReleased", "Release", "Released "+machines(count)+" that the selector no longer matches")
}

func deletedEvent(count int, victims []plan.Victim) reconciler.Event {
	return reconciler.NormalEvent("MachinesDeleted", "Delete", fmt.Sprintf("Deleted %s: %s", machines(count), named(victims)))
}

func replacedEvent(count int, failed []plan.Victim) reconciler.Event {
	return reconciler.NormalEvent("MachinesReplaced", "Replace", fmt.Sprintf("Replacing %s that failed: %s", machines(count), named(failed)))
}

// remediatedEvent is about a Machine that failed; replacedEvent tells the same of its set.
func remediatedEvent(set, why string) reconciler.Event {
	return reconciler.WarningEvent("Remediated", "Replace", fmt.Sprintf("MachineSet %s deletes this machine and makes another for it: %s", set, why))
}

func updatedEvent(count int) reconciler.Event {
	return reconciler.NormalEvent("MachinesUpdated", "Update", "Brought "+machines(count)+" up to date with the template")
}

func unmarkedEvent(stale []plan.Machine) reconciler.Event {
	var names []string
	for _, machine := range stale {
		names = append(names, machine.Name)
	}
	return reconciler.WarningEvent("StaleMark", "Unmark", fmt.Sprintf(
		"Took the mark for deletion off %s: no scale-down has followed within %s; for a lasting preference use the annotation %s",
		reconciler.ListFew(names), plan.MarkLifetime, v1alpha1.DeletionPriorityAnnotation))
}

func staleTransferEvent() reconciler.Event {
	return reconciler.WarningEvent("StaleTransfer", "Reconcile", fmt.Sprintf(
		"Ignoring the annotation %s: no MachineDeployment controls this set, so no controller would take it off again",
		v1alpha1.TransferAnnotation))
}

func tooManyUnhealthyEvent(message string) reconciler.Event {
	return reconciler.WarningEvent(v1alpha1.ReasonTooManyUnhealthy, "Remediate", message)
}

func overshootEvent(message string) reconciler.Event {
	return reconciler.WarningEvent(v1alpha1.ReasonOvershoot, "Freeze", message)
}

func overshootEndedEvent() reconciler.Event {
	return reconciler.NormalEvent("OvershootEnded", "Freeze", "There are no longer far too many machines: this alone keeps the set frozen no longer")
}

func runawayEvent(why string) reconciler.Event {
	return reconciler.WarningEvent(v1alpha1.ReasonTooManyCreations, "Create", why)
}

func invalidEvent(reason, message string) reconciler.Event {
	return reconciler.WarningEvent(reason, "Reconcile", message)
}

func failedEvent(reason string, err error) reconciler.Event {
	return reconciler.WarningEvent(reason, "Reconcile", err.Error())
}

// named lists victims with the reason for each.
func named(victims []plan.Victim) string {
	var names []string
	for _, victim := range victims {
		names = append(names, fmt.Sprintf("%s (%s)", victim.Name, victim.Why))
	}
	return reconciler.ListFew(names)
}

func machines(count int) string {
	if count == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", count)
}
