package machineset

import (
	"fmt"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/eventrecorder"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

func createdEvent(count int) eventrecorder.Event {
	return eventrecorder.Normal("MachinesCreated", "Create", "Created "+machines(count))
}

func adoptedEvent(count int) eventrecorder.Event {
	return eventrecorder.Normal("MachinesAdopted", "Adopt", "Adopted "+machines(count))
}

func releasedEvent(count int) eventrecorder.Event {
	return eventrecorder.Normal("MachinesReleased", "Release", "Released "+machines(count)+" that the selector no longer matches")
}

func deletedEvent(count int, victims []plan.Victim) eventrecorder.Event {
	return eventrecorder.Normal("MachinesDeleted", "Delete", fmt.Sprintf("Deleted %s: %s", machines(count), named(victims)))
}

func replacedEvent(count int, failed []plan.Victim) eventrecorder.Event {
	return eventrecorder.Normal("MachinesReplaced", "Replace", fmt.Sprintf("Replacing %s that failed: %s", machines(count), named(failed)))
}

// remediatedEvent is about a Machine that failed; replacedEvent tells the same of its set.
func remediatedEvent(set, why string) eventrecorder.Event {
	return eventrecorder.Warning("Remediated", "Replace", fmt.Sprintf("MachineSet %s deletes this machine and makes another for it: %s", set, why))
}

func updatedEvent(count int) eventrecorder.Event {
	return eventrecorder.Normal("MachinesUpdated", "Update", "Brought "+machines(count)+" up to date with the template")
}

func unmarkedEvent(stale []plan.Machine) eventrecorder.Event {
	var names []string
	for _, machine := range stale {
		names = append(names, machine.Name)
	}
	return eventrecorder.Warning("StaleMark", "Unmark", fmt.Sprintf(
		"Took the mark for deletion off %s: no scale-down has followed within %s; for a lasting preference use the annotation %s",
		eventrecorder.Few(names), plan.MarkLifetime, v1alpha1.DeletionPriorityAnnotation))
}

func staleTransferEvent() eventrecorder.Event {
	return eventrecorder.Warning("StaleTransfer", "Reconcile", fmt.Sprintf(
		"Ignoring the annotation %s: no MachineDeployment controls this set, so no controller would take it off again",
		v1alpha1.TransferAnnotation))
}

func tooManyUnhealthyEvent(message string) eventrecorder.Event {
	return eventrecorder.Warning(v1alpha1.ReasonTooManyUnhealthy, "Remediate", message)
}

func overshootEvent(message string) eventrecorder.Event {
	return eventrecorder.Warning(v1alpha1.ReasonOvershoot, "Freeze", message)
}

func overshootEndedEvent() eventrecorder.Event {
	return eventrecorder.Normal("OvershootEnded", "Freeze", "There are no longer far too many machines: this alone keeps the set frozen no longer")
}

func runawayEvent(why string) eventrecorder.Event {
	return eventrecorder.Warning(v1alpha1.ReasonTooManyCreations, "Create", why)
}

func invalidEvent(reason, message string) eventrecorder.Event {
	return eventrecorder.Warning(reason, "Reconcile", message)
}

func failedEvent(reason string, err error) eventrecorder.Event {
	return eventrecorder.Warning(reason, "Reconcile", err.Error())
}

// named lists victims with the reason for each.
func named(victims []plan.Victim) string {
	var names []string
	for _, victim := range victims {
		names = append(names, fmt.Sprintf("%s (%s)", victim.Name, victim.Why))
	}
	return eventrecorder.Few(names)
}

func machines(count int) string {
	if count == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", count)
}
