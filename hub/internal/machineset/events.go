package machineset

import (
	"fmt"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/notice"
)

func createdEvent(count int) notice.Event {
	return notice.Normal("MachinesCreated", "Create", "Created "+machines(count))
}

func adoptedEvent(count int) notice.Event {
	return notice.Normal("MachinesAdopted", "Adopt", "Adopted "+machines(count))
}

func releasedEvent(count int) notice.Event {
	return notice.Normal("MachinesReleased", "Release", "Released "+machines(count)+" that the selector no longer matches")
}

func deletedEvent(count int, victims []plan.Victim) notice.Event {
	return notice.Normal("MachinesDeleted", "Delete", fmt.Sprintf("Deleted %s: %s", machines(count), named(victims)))
}

func replacedEvent(count int, failed []plan.Victim) notice.Event {
	return notice.Normal("MachinesReplaced", "Replace", fmt.Sprintf("Replacing %s that failed: %s", machines(count), named(failed)))
}

// remediatedEvent is about a Machine that failed; replacedEvent tells the same of its set.
func remediatedEvent(set, why string) notice.Event {
	return notice.Warning("Remediated", "Replace", fmt.Sprintf("MachineSet %s deletes this machine and makes another for it: %s", set, why))
}

func updatedEvent(count int) notice.Event {
	return notice.Normal("MachinesUpdated", "Update", "Brought "+machines(count)+" up to date with the template")
}

func unmarkedEvent(stale []plan.Machine) notice.Event {
	var names []string
	for _, machine := range stale {
		names = append(names, machine.Name)
	}
	return notice.Warning("StaleMark", "Unmark", fmt.Sprintf(
		"Took the mark for deletion off %s: no scale-down has followed within %s; for a lasting preference use the annotation %s",
		notice.Few(names), plan.MarkLifetime, v1alpha1.DeletionPriorityAnnotation))
}

func staleTransferEvent() notice.Event {
	return notice.Warning("StaleTransfer", "Reconcile", fmt.Sprintf(
		"Ignoring the annotation %s: no MachineDeployment controls this set, so nobody would take it off again",
		v1alpha1.TransferAnnotation))
}

func tooManyUnhealthyEvent(message string) notice.Event {
	return notice.Warning(v1alpha1.ReasonTooManyUnhealthy, "Remediate", message)
}

func overshootEvent(message string) notice.Event {
	return notice.Warning(v1alpha1.ReasonOvershoot, "Freeze", message)
}

func overshootEndedEvent() notice.Event {
	return notice.Normal("OvershootEnded", "Freeze", "There are no longer far too many machines: this alone keeps the set frozen no longer")
}

func runawayEvent(why string) notice.Event {
	return notice.Warning(v1alpha1.ReasonTooManyCreations, "Create", why)
}

func failedEvent(reason string, err error) notice.Event {
	return notice.Warning(reason, "Reconcile", err.Error())
}

// named lists victims with the reason for each.
func named(victims []plan.Victim) string {
	var names []string
	for _, victim := range victims {
		names = append(names, fmt.Sprintf("%s (%s)", victim.Name, victim.Why))
	}
	return notice.Few(names)
}

func machines(count int) string {
	if count == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", count)
}
