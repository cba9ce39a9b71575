package machine

import (
	"cmp"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// Reasons of events on a Machine, beside the reasons of its conditions and errors. A Machine that comes and goes as
// it should has none; each turn for the worse has one, and so has the turn back.
const (
	eventRepaired = "InstanceReplaced"
	eventUpdated  = "Updated"
	// eventRecovered: a Machine that ran into a timeout was not replaced, and is healthy again.
	eventRecovered = "Recovered"
	// usualPerSecond and usualBurst bound the events about the usual course of updates and drains over all Machines;
	// turnsPerSecond and turnsBurst those about turns for the worse and back. A Machine that turns to and fro has its own
	// bound. What is dropped, the metric counts.
	usualPerSecond, usualBurst = 1, 25
	turnsPerSecond, turnsBurst = 10, 200
	turnsPerMinuteOfOne        = 1
	turnsBurstOfOne            = 10
)

// isUsual reports whether e belongs to the usual course of things.
func isUsual(e reconciler.Event) bool {
	return e.Type == corev1.EventTypeNormal && e.Reason != eventRecovered && e.Reason != v1alpha1.ReasonHealthy
}

// storyOf tells, in events, what lies between two statuses of a Machine.
func storyOf(before, after v1alpha1.MachineStatus) []reconciler.Event {
	var story []reconciler.Event
	switch {
	case after.ErrorReason != "" && (after.ErrorReason != before.ErrorReason || after.ErrorMessage != before.ErrorMessage):
		story = append(story, reconciler.WarningEvent(after.ErrorReason, "Reconcile", after.ErrorMessage))
	case after.ErrorReason == "" && (before.ErrorReason == v1alpha1.ErrorCreationTimeout || before.ErrorReason == v1alpha1.ErrorHealthTimeout):
		story = append(story, reconciler.NormalEvent(eventRecovered, "Reconcile", "The machine is healthy again after "+before.ErrorReason))
	default:
		story = append(story, healthTurn(before, after)...)
	}
	if nodeReady := changedCondition(before, after, v1alpha1.MachineNodeReadyCondition); nodeReady != nil && nodeReady.Reason == v1alpha1.ReasonNodeNameConflict {
		story = append(story, reconciler.WarningEvent(nodeReady.Reason, "Observe", nodeReady.Message))
	}
	if drained := changedCondition(before, after, v1alpha1.MachineDrainedCondition); drained != nil {
		switch drained.Reason {
		case v1alpha1.ReasonDraining, v1alpha1.ReasonAwaitingHook, v1alpha1.ReasonThawLimited:
			story = append(story, reconciler.NormalEvent(drained.Reason, "Drain", drained.Message))
		case v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonMisconfiguredBudget, v1alpha1.ReasonPodsComeBack:
			story = append(story, reconciler.WarningEvent(drained.Reason, "Drain", drained.Message))
		}
	}
	return append(story, updateEvents(before, after)...)
}

// updateEvents returns the event of a change of an update in place.
func updateEvents(before, after v1alpha1.MachineStatus) []reconciler.Event {
	updated := changedCondition(before, after, v1alpha1.MachineUpdatedCondition)
	if updated == nil {
		return nil
	}
	switch updated.Reason {
	case v1alpha1.ReasonUpdating:
		return []reconciler.Event{reconciler.NormalEvent(updated.Reason, "Update", "Updating the instance in place")}
	case v1alpha1.ReasonUpdateFailed, v1alpha1.ReasonInPlaceUnsupported:
		return []reconciler.Event{reconciler.WarningEvent(updated.Reason, "Update", updated.Message)}
	case v1alpha1.ReasonUpToDate:
		if meta.FindStatusCondition(before.Conditions, updated.Type) != nil {
			return []reconciler.Event{reconciler.NormalEvent(eventUpdated, "Update", "The instance is up to date"+versionOf(after))}
		}
	}
	return nil
}

// healthTurn tells that a Machine which was well is not, or that it is healthy again. That an update in place takes the Node
// away for a while is no turn.
func healthTurn(before, after v1alpha1.MachineStatus) []reconciler.Event {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.MachineHealthyCondition)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.MachineHealthyCondition)
	switch {
	case was == nil || is == nil || before.Phase == v1alpha1.MachineUpdating || after.Phase == v1alpha1.MachineUpdating:
	case was.Status == metav1.ConditionTrue && is.Status == metav1.ConditionFalse:
		return []reconciler.Event{reconciler.WarningEvent(is.Reason, "Observe", "The machine is no longer healthy: "+cmp.Or(is.Message, is.Reason))}
	case was.Status == metav1.ConditionFalse && is.Status == metav1.ConditionTrue:
		return []reconciler.Event{reconciler.NormalEvent(is.Reason, "Observe", "The machine is healthy again after "+was.Reason)}
	}
	return nil
}

// changedCondition returns the condition of a type if its reason has changed, else nil.
func changedCondition(before, after v1alpha1.MachineStatus, conditionType string) *metav1.Condition {
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
	inner        events.EventRecorder
	clock        clock.PassiveClock
	metrics      *Metrics
	usual, turns flowcontrol.PassiveRateLimiter
	// ofOne has the limiters of single Machines that turned for the worse, by UID.
	ofOne sync.Map
}

func newRecorder(inner events.EventRecorder, clock clock.PassiveClock, metrics *Metrics) *recorder {
	return &recorder{
		inner: inner, clock: clock, metrics: metrics,
		usual: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(usualPerSecond, usualBurst, clock),
		turns: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(turnsPerSecond, turnsBurst, clock),
	}
}

// acceptsEvent reports whether e is within the bounds.
func (r *recorder) acceptsEvent(machine *v1alpha1.Machine, e reconciler.Event) bool {
	if isUsual(e) {
		return r.usual.TryAccept()
	}
	one, found := r.ofOne.Load(machine.UID)
	if !found {
		one, _ = r.ofOne.LoadOrStore(machine.UID,
			flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(turnsPerMinuteOfOne/60.0, turnsBurstOfOne, r.clock))
	}
	return one.(flowcontrol.PassiveRateLimiter).TryAccept() && r.turns.TryAccept()
}

// forgetMachine forgets a Machine that is gone.
func (r *recorder) forgetMachine(uid types.UID) { r.ofOne.Delete(uid) }

// sendChanges tells what has happened to a Machine since its status was before.
func (r *recorder) sendChanges(machine *v1alpha1.Machine, before v1alpha1.MachineStatus) {
	for _, e := range storyOf(before, machine.Status) {
		r.sendEvent(machine, e)
	}
}

// recordRepair counts by its cause, and tells, that a Machine's instance was recreated.
func (r *recorder) recordRepair(machine *v1alpha1.Machine, cause, why string) {
	r.metrics.repairs.WithLabelValues(cause).Inc()
	r.sendEvent(machine, reconciler.WarningEvent(eventRepaired, "Repair", "Recreating the instance: "+why))
}

func (r *recorder) sendEvent(machine *v1alpha1.Machine, e reconciler.Event) {
	if !r.acceptsEvent(machine, e) {
		r.metrics.droppedEvents.WithLabelValues(e.Type).Inc()
		return
	}
	e.Send(r.inner, machine)
}
