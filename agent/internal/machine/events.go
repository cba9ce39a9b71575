package machine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Reasons of events on a Machine. There is none for success.
const (
	eventRepaired = "InstanceReplaced"
	// eventsPerSecond and eventBurst bound the events of an agent: when a host with a thousand pods is lost,
	// the metric counts all of them and the events show some.
	eventsPerSecond, eventBurst = 1, 25
)

// recorder emits the events of the controller.
type recorder struct {
	inner   events.EventRecorder
	limiter flowcontrol.PassiveRateLimiter
}

func newRecorder(inner events.EventRecorder, clock clock.PassiveClock) recorder {
	return recorder{inner: inner, limiter: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(eventsPerSecond, eventBurst, clock)}
}

// terminal tells of a terminal error that the Machine did not have before.
func (r recorder) terminal(machine *v1alpha1.Machine, before v1alpha1.MachineStatus) {
	after := machine.Status
	if after.ErrorReason == "" || after.ErrorReason == before.ErrorReason && after.ErrorMessage == before.ErrorMessage {
		return
	}
	r.warn(machine, after.ErrorReason, "Reconcile", after.ErrorMessage)
}

// repaired tells that a Machine's instance was made anew.
func (r recorder) repaired(machine *v1alpha1.Machine, why string) {
	r.warn(machine, eventRepaired, "Repair", "Making the instance anew: "+why)
}

func (r recorder) warn(machine *v1alpha1.Machine, reason, action, note string) {
	const longest = 1024 // the API server's limit for a note
	if !r.limiter.TryAccept() {
		return
	}
	if len(note) > longest {
		note = note[:longest]
	}
	r.inner.Eventf(machine, nil, corev1.EventTypeWarning, reason, action, "%s", note)
}
