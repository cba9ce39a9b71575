package machineset

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// event is what to tell about a set. There is one per batch, never one per Machine.
type event struct {
	kind, reason, action, note string
}

// namedMachines bounds the Machines that an event or condition names.
const namedMachines = 10

// maxNote is the API server's limit for an event's note, in bytes.
const maxNote = 1024

func createdEvent(count int) event {
	return event{corev1.EventTypeNormal, "MachinesCreated", "Create", "Created " + machines(count)}
}

func adoptedEvent(count int) event {
	return event{corev1.EventTypeNormal, "MachinesAdopted", "Adopt", "Adopted " + machines(count)}
}

func releasedEvent(count int) event {
	return event{corev1.EventTypeNormal, "MachinesReleased", "Release",
		"Released " + machines(count) + " that the selector no longer matches"}
}

func deletedEvent(count int, victims []plan.Victim) event {
	return event{corev1.EventTypeNormal, "MachinesDeleted", "Delete",
		fmt.Sprintf("Deleted %s: %s", machines(count), named(victims))}
}

func replacedEvent(count int, failed []plan.Victim) event {
	return event{corev1.EventTypeNormal, "MachinesReplaced", "Replace",
		fmt.Sprintf("Replacing %s that failed: %s", machines(count), named(failed))}
}

func updatedEvent(count int) event {
	return event{corev1.EventTypeNormal, "MachinesUpdated", "Update",
		"Brought " + machines(count) + " up to date with the template"}
}

func unmarkedEvent(stale []plan.Machine) event {
	var names []string
	for _, machine := range stale {
		names = append(names, machine.Name)
	}
	return event{corev1.EventTypeWarning, "StaleMark", "Unmark", fmt.Sprintf(
		"Took the mark for deletion off %s: no scale-down has followed within %s; for a lasting preference use the annotation %s",
		few(names), plan.MarkLifetime, v1alpha1.DeletionPriorityAnnotation)}
}

func staleTransferEvent() event {
	return event{corev1.EventTypeWarning, "StaleTransfer", "Reconcile", fmt.Sprintf(
		"Ignoring the annotation %s: no MachineDeployment controls this set, so nobody would take it off again",
		v1alpha1.TransferAnnotation)}
}

func tooManyUnhealthyEvent(message string) event {
	return event{corev1.EventTypeWarning, v1alpha1.ReasonTooManyUnhealthy, "Remediate", message}
}

func runawayEvent(why string) event {
	return event{corev1.EventTypeWarning, v1alpha1.ReasonTooManyCreations, "Create", why}
}

func failedEvent(reason string, err error) event {
	return event{corev1.EventTypeWarning, reason, "Reconcile", err.Error()}
}

// named lists victims with the reason for each.
func named(victims []plan.Victim) string {
	var names []string
	for _, victim := range victims {
		names = append(names, fmt.Sprintf("%s (%s)", victim.Name, victim.Why))
	}
	return few(names)
}

// few lists the first names, and how many more there are.
func few(names []string) string {
	list := names
	if more := len(names) - namedMachines; more > 0 {
		list = append(slices.Clone(names[:namedMachines]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}

func machines(count int) string {
	if count == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", count)
}

func emit(recorder events.EventRecorder, set *v1alpha1.MachineSet, e event) {
	recorder.Eventf(set, nil, e.kind, e.reason, e.action, "%s", e.note[:min(len(e.note), maxNote)])
}
