package machineset

import (
	"fmt"
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

// namedVictims bounds the Machines that an event names.
const namedVictims = 5

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
	var named []string
	for _, victim := range victims[:min(namedVictims, len(victims))] {
		named = append(named, fmt.Sprintf("%s (%s)", victim.Name, victim.Why))
	}
	if more := len(victims) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return event{corev1.EventTypeNormal, "MachinesDeleted", "Delete",
		fmt.Sprintf("Deleted %s: %s", machines(count), strings.Join(named, ", "))}
}

func failedEvent(reason string, err error) event {
	return event{corev1.EventTypeWarning, reason, "Reconcile", err.Error()}
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
