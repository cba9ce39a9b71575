package machinedeployment

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machinedeployment/plan"
)

// event is what to tell about a deployment. Events that have reason and related object in common are one event with
// a count: of each set's scaling there is one, of each Machine's update another.
type event struct {
	kind, reason, action, note string
	related                    runtime.Object
}

// maxNote is the API server's limit for an event's note, in bytes.
const maxNote = 1024

func createdEvent(set *v1alpha1.MachineSet, p plan.Plan) event {
	return event{corev1.EventTypeNormal, "MachineSetCreated", "Create",
		fmt.Sprintf("Created MachineSet %s with %d replicas (%s)", set.Name, p.NewReplicas, p.Why), aboutSet(set)}
}

func scaledEvent(c change, why string) event {
	reason := "MachineSetScaledUp"
	if c.by() < 0 {
		reason = "MachineSetScaledDown"
	}
	return event{corev1.EventTypeNormal, reason, "Scale",
		fmt.Sprintf("Scaled MachineSet %s from %d to %d (%s)", c.after.Name, setReplicas(c.before), setReplicas(c.after), why), aboutSet(c.after)}
}

func adoptedEvent(set *v1alpha1.MachineSet) event {
	return event{corev1.EventTypeNormal, "MachineSetAdopted", "Adopt", "Adopted MachineSet " + set.Name, aboutSet(set)}
}

func collisionEvent(set *v1alpha1.MachineSet) event {
	return event{corev1.EventTypeWarning, "TemplateHashCollision", "Create", fmt.Sprintf(
		"MachineSet %s has the name but not the template of the one to be made: taking another name", set.Name), aboutSet(set)}
}

func failedEvent(err error) event {
	return event{corev1.EventTypeWarning, "RolloutFailed", "Reconcile", err.Error(), nil}
}

// rolloutEvent tells of a new revision; one whose template is that of an older revision is told as that.
func rolloutEvent(s *scope, d decision) event {
	note := fmt.Sprintf("Rolling out revision %d with strategy %s", d.revision, s.deployment.Spec.Strategy.Type)
	if d.renewed > 0 {
		note = fmt.Sprintf("Going back to the template of revision %d, as revision %d, with strategy %s", d.renewed, d.revision, s.deployment.Spec.Strategy.Type)
	}
	return event{corev1.EventTypeNormal, "RolloutStarted", "Rollout", note, aboutSet(s.current)}
}

// progressEvent tells of a turn of the Progressing condition; nil if there is nothing to tell.
func progressEvent(before, after *metav1.Condition) *event {
	if before == nil || before.Reason == after.Reason {
		return nil
	}
	switch after.Reason {
	case v1alpha1.ReasonNewMachineSetAvailable:
		return &event{corev1.EventTypeNormal, "RolloutCompleted", "Rollout", "All machines have the current template and are available", nil}
	case v1alpha1.ReasonPaused:
		return &event{corev1.EventTypeNormal, "RolloutPaused", "Rollout", after.Message, nil}
	case v1alpha1.ReasonAwaitingRequest:
		return &event{corev1.EventTypeNormal, "RolloutAwaitsRequest", "Rollout", after.Message, nil}
	case v1alpha1.ReasonProgressDeadlineExceeded:
		return &event{corev1.EventTypeWarning, v1alpha1.ReasonProgressDeadlineExceeded, "Rollout", after.Message, nil}
	}
	if before.Reason == v1alpha1.ReasonPaused {
		return &event{corev1.EventTypeNormal, "RolloutResumed", "Rollout", "spec.paused is unset: " + after.Message, nil}
	}
	return nil
}

func frozenEvent(condition metav1.Condition) event {
	if condition.Status == metav1.ConditionTrue {
		return event{corev1.EventTypeWarning, "Frozen", "Freeze", "Nothing is created, moved or deleted: " + condition.Message, nil}
	}
	return event{corev1.EventTypeNormal, "Thawed", "Freeze", "No cause of a freeze holds any longer: the work goes on", nil}
}

func movedEvent(machine *v1alpha1.Machine, set *v1alpha1.MachineSet) event {
	return event{corev1.EventTypeNormal, "InPlaceUpdateStarted", "Update",
		fmt.Sprintf("Moved Machine %s to MachineSet %s to be updated in place", machine.Name, set.Name), &v1alpha1.Machine{ObjectMeta: named(machine)}}
}

func replacedEvent(namespace string, pick plan.Pick) event {
	return event{corev1.EventTypeNormal, "MachineReplaced", "Delete",
		fmt.Sprintf("Deleted Machine %s: its provider cannot update it in place, so MachineSet %s makes another", pick.Name, pick.Set), aboutPick(namespace, pick)}
}

func removedEvent(namespace string, pick plan.Pick) event {
	return event{corev1.EventTypeNormal, "MachineRemoved", "Delete",
		fmt.Sprintf("Deleted Machine %s of MachineSet %s, which is not available: a scale-down would have taken one that is", pick.Name, pick.Set), aboutPick(namespace, pick)}
}

func emit(recorder events.EventRecorder, deployment *v1alpha1.MachineDeployment, e event) {
	// Without resource version: the recorder counts events as one only if they regard equal references.
	about := &v1alpha1.MachineDeployment{ObjectMeta: named(deployment)}
	recorder.Eventf(about, e.related, e.kind, e.reason, e.action, "%s", e.note[:min(len(e.note), maxNote)])
}

func named(object metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
}

func aboutSet(set *v1alpha1.MachineSet) runtime.Object {
	if set == nil {
		return nil
	}
	return &v1alpha1.MachineSet{ObjectMeta: named(set)}
}

func aboutPick(namespace string, pick plan.Pick) runtime.Object {
	return &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pick.Name, UID: pick.UID}}
}
