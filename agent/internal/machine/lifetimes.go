package machine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// lifetimes tell how much of their times Machines have used up. What was frozen does not count.
type lifetimes struct {
	clock    clock.PassiveClock
	downtime freeze.Downtime
	// drains has, by the UIDs of Machines that are being deleted, since when this agent knows of it.
	drains sync.Map
}

// elapsedTimes tells how much of its times a Machine has used up.
func (l *lifetimes) elapsedTimes(machine *v1alpha1.Machine) Elapsed {
	var elapsed Elapsed
	elapsed.Creation = l.countedSince(machine.CreationTimestamp.Time)
	switch valid := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineConfigurationValidCondition); {
	case valid == nil:
	case valid.Status != metav1.ConditionTrue:
		elapsed.Creation = 0
	default:
		elapsed.Creation = min(elapsed.Creation, l.countedSince(valid.LastTransitionTime.Time))
	}
	if healthy := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineHealthyCondition); healthy != nil {
		elapsed.Unhealthy = l.countedSince(healthy.LastTransitionTime.Time)
	}
	if !machine.DeletionTimestamp.IsZero() {
		// The hub's clock has written the one time and the agent's the other: an agent whose clock is ahead must not give a
		// drain up before its time.
		elapsed.Drain = min(l.countedSince(machine.DeletionTimestamp.Time), l.countedSince(l.drainStarted(machine)))
	} else if started := DrainingSince(machine); !started.IsZero() {
		elapsed.Drain = l.countedSince(started)
	}
	return elapsed
}

// drainStarted returns since when an agent of this cluster knows that a Machine is to be deleted, by the agent's own clock: as
// this process remembers, or as the one before has written in the status.
func (l *lifetimes) drainStarted(machine *v1alpha1.Machine) time.Time {
	started := l.clock.Now().Truncate(time.Second) // As precisely as the hub's times, which are compared with it.
	if since := DeletionDrainSince(machine); !since.IsZero() {
		started = since
	}
	first, _ := l.drains.LoadOrStore(machine.UID, started)
	started, _ = first.(time.Time)
	return started
}

// countedSince returns the time since t that counts.
func (l *lifetimes) countedSince(t time.Time) time.Duration {
	return max(l.clock.Since(t)-l.downtime.FrozenSince(t), 0)
}
