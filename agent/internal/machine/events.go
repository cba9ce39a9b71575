package machine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Reasons of events on a Machine, beside the reasons of its conditions and errors. A Machine that comes and goes as
// it should has none.
const (
	eventRepaired = "InstanceReplaced"
	eventUpdated  = "Updated"
	// eventRecovered: a Machine that ran into a timeout was not replaced, and is well again.
	eventRecovered = "Recovered"
	// eventsPerSecond and eventBurst bound the events of an agent: when a host with a thousand pods is lost,
	// the metric counts all of them and the events show some.
	eventsPerSecond, eventBurst = 1, 25
)

// event is something that happened to a Machine.
type event struct {
	kind, reason, action, note string
}

// storyOf tells, in events, what lies between two statuses of a Machine.
func storyOf(before, after v1alpha1.MachineStatus) []event {
	var story []event
	switch {
	case after.ErrorReason != "" && (after.ErrorReason != before.ErrorReason || after.ErrorMessage != before.ErrorMessage):
		story = append(story, event{corev1.EventTypeWarning, after.ErrorReason, "Reconcile", after.ErrorMessage})
	case after.ErrorReason == "" && (before.ErrorReason == v1alpha1.ErrorCreationTimeout || before.ErrorReason == v1alpha1.ErrorHealthTimeout):
		story = append(story, event{corev1.EventTypeNormal, eventRecovered, "Reconcile", "The machine is well again after " + before.ErrorReason})
	}
	if drained := news(before, after, v1alpha1.MachineDrainedCondition); drained != nil {
		switch drained.Reason {
		case v1alpha1.ReasonDraining, v1alpha1.ReasonAwaitingHook, v1alpha1.ReasonThawLimited:
			story = append(story, event{corev1.EventTypeNormal, drained.Reason, "Drain", drained.Message})
		case v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonMisconfiguredBudget:
			story = append(story, event{corev1.EventTypeWarning, drained.Reason, "Drain", drained.Message})
		}
	}
	if updated := news(before, after, v1alpha1.MachineUpdatedCondition); updated != nil {
		switch updated.Reason {
		case v1alpha1.ReasonUpdating:
			story = append(story, event{corev1.EventTypeNormal, updated.Reason, "Update", "Updating the instance in place"})
		case v1alpha1.ReasonUpdateFailed, v1alpha1.ReasonInPlaceUnsupported:
			story = append(story, event{corev1.EventTypeWarning, updated.Reason, "Update", updated.Message})
		case v1alpha1.ReasonUpToDate:
			if meta.FindStatusCondition(before.Conditions, updated.Type) != nil {
				story = append(story, event{corev1.EventTypeNormal, eventUpdated, "Update", "The instance is up to date" + versionOf(after)})
			}
		}
	}
	return story
}

// news returns the condition of a type if its reason has changed, else nil.
func news(before, after v1alpha1.MachineStatus, conditionType string) *metav1.Condition {
	was, is := meta.FindStatusCondition(before.Conditions, conditionType), meta.FindStatusCondition(after.Conditions, conditionType)
	if is == nil || was != nil && was.Reason == is.Reason {
		return nil
	}
	return is
}

func versionOf(status v1alpha1.MachineStatus) string {
	if status.Versions == nil || status.Versions.Kubelet == "" {
		return ""
	}
	return ": kubelet " + status.Versions.Kubelet
}

// recorder emits the events of the controller.
type recorder struct {
	inner   events.EventRecorder
	limiter flowcontrol.PassiveRateLimiter
}

func newRecorder(inner events.EventRecorder, clock clock.PassiveClock) recorder {
	return recorder{inner: inner, limiter: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventsPerSecond, eventBurst, clock)}
}

// story tells what has happened to a Machine since its status was before.
func (r recorder) story(machine *v1alpha1.Machine, before v1alpha1.MachineStatus) {
	for _, e := range storyOf(before, machine.Status) {
		r.tell(machine, e)
	}
}

// repaired tells that a Machine's instance was made anew.
func (r recorder) repaired(machine *v1alpha1.Machine, why string) {
	r.tell(machine, event{corev1.EventTypeWarning, eventRepaired, "Repair", "Making the instance anew: " + why})
}

func (r recorder) tell(machine *v1alpha1.Machine, e event) {
	const longest = 1024 // the API server's limit for a note
	if !r.limiter.TryAccept() {
		return
	}
	if len(e.note) > longest {
		e.note = e.note[:longest]
	}
	r.inner.Eventf(machine, nil, e.kind, e.reason, e.action, "%s", e.note)
}
