package machinedeployment

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
)

// event is what to tell about a deployment.
type event struct {
	kind, reason, action, note string
}

// maxNote is the API server's limit for an event's note, in bytes.
const maxNote = 1024

func createdEvent(set string, p plan.Plan) event {
	return event{corev1.EventTypeNormal, "MachineSetCreated", "Create",
		fmt.Sprintf("Created MachineSet %s with %d replicas (%s)", set, p.NewReplicas, p.Why)}
}

func scaledEvent(p plan.Plan) event {
	var changes []string
	for _, scale := range p.Scale {
		changes = append(changes, fmt.Sprintf("%s from %d to %d", scale.Name, scale.From, scale.To))
	}
	return event{corev1.EventTypeNormal, "MachineSetsScaled", "Scale",
		fmt.Sprintf("Scaled MachineSet %s (%s)", strings.Join(changes, ", "), p.Why)}
}

func adoptedEvent(set string) event {
	return event{corev1.EventTypeNormal, "MachineSetAdopted", "Adopt", "Adopted MachineSet " + set}
}

func collisionEvent(set string) event {
	return event{corev1.EventTypeWarning, "TemplateHashCollision", "Create",
		fmt.Sprintf("MachineSet %s has the name but not the template of the one to be made: taking another name", set)}
}

func failedEvent(err error) event {
	return event{corev1.EventTypeWarning, "RolloutFailed", "Reconcile", err.Error()}
}

func emit(recorder events.EventRecorder, deployment *v1alpha1.MachineDeployment, e event) {
	recorder.Eventf(deployment, nil, e.kind, e.reason, e.action, "%s", e.note[:min(len(e.note), maxNote)])
}
