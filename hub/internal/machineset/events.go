package machineset

import (
	"fmt"
	"time"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func createdEvent(count int) reconciler.Event {
	return reconciler.NormalEvent("MachinesCreated", "Create", "Created "+countMachines(count))
}

func adoptedEvent(count int) reconciler.Event {
	return reconciler.NormalEvent("MachinesAdopted", "Adopt", "Adopted "+countMachines(count))
}

func releasedEvent(count int) reconciler.Event {
	return reconciler.NormalEvent("MachinesReleased", "Release", "Released "+countMachines(count)+" that the selector no longer matches")
}

func deletedEvent(count int, victims []plan.Victim) reconciler.Event {
	return reconciler.NormalEvent("MachinesDeleted", "Delete", fmt.Sprintf("Deleted %s: %s", countMachines(count), nameVictims(victims)))
}

func replacedEvent(count int, failed []plan.Victim) reconciler.Event {
	return reconciler.NormalEvent("MachinesReplaced", "Replace", fmt.Sprintf("Replacing %s that failed: %s", countMachines(count), nameVictims(failed)))
}

// remediatedEvent is about a Machine that failed; replacedEvent tells the same of its set.
func remediatedEvent(set, why string) reconciler.Event {
	return reconciler.WarningEvent("Remediated", "Replace", fmt.Sprintf("MachineSet %s replaces this machine: %s", set, why))
}

func updatedEvent(count int) reconciler.Event {
	return reconciler.NormalEvent("MachinesUpdated", "Update", "Brought "+countMachines(count)+" up to date with the template")
}

func unmarkedEvent(stale []plan.Machine) reconciler.Event {
	var names []string
	for _, machine := range stale {
		names = append(names, machine.Name)
	}
	return reconciler.WarningEvent("StaleMark", "Unmark", fmt.Sprintf(
		"Removed the mark for deletion from %s: no scale-down has followed within %s; for a lasting preference use the annotation %s",
		reconciler.ListFew(names), plan.MarkLifetime, v1alpha1.DeletionPriorityAnnotation))
}

func staleTransferEvent() reconciler.Event {
	return reconciler.WarningEvent("StaleTransfer", "Reconcile", fmt.Sprintf(
		"Ignoring the annotation %s: no MachineDeployment controls this set, so no controller would remove it again",
		v1alpha1.TransferAnnotation))
}

func tooManyUnhealthyEvent(message string) reconciler.Event {
	return reconciler.WarningEvent(v1alpha1.ReasonTooManyUnhealthy, "Remediate", message)
}

func overshootEvent(message string) reconciler.Event {
	return reconciler.WarningEvent(v1alpha1.ReasonOvershoot, "Freeze", message)
}

func overshootEndedEvent() reconciler.Event {
	return reconciler.NormalEvent("OvershootEnded", "Freeze", "The number of machines is within bounds again: this no longer freezes the set")
}

func runawayEvent(why string) reconciler.Event {
	return reconciler.WarningEvent(v1alpha1.ReasonTooManyCreations, "Create", why)
}

func invalidEvent(reason, message string) reconciler.Event {
	return reconciler.WarningEvent(reason, "Reconcile", message)
}

func failedEvent(failure *outcome.Failure) reconciler.Event {
	return reconciler.WarningEvent(failure.Reason, "Reconcile", failure.Error())
}

// nameVictims lists victims with the reason for each.
func nameVictims(victims []plan.Victim) string {
	var names []string
	for _, victim := range victims {
		names = append(names, fmt.Sprintf("%s (%s)", victim.Name, victim.Why))
	}
	return reconciler.ListFew(names)
}

func countMachines(count int) string {
	if count == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", count)
}

const (
	// tellEvery is the least time between two events of the same kind about one set. A rollout that replaces Machines
	// one by one is told in a few events, each about many.
	tellEvery = time.Minute
	// tellAtOnce is for how many Machines an event is not put off: it could not name more.
	tellAtOnce = 20
)

// emittedEvents gathers what one kind of event tells. The zero value is ready for use.
type emittedEvents struct {
	// last is when something was told, since is when the first of what is gathered happened.
	last, since time.Time
	count       int
	victims     []plan.Victim
}

// addMachines notes what has happened to count Machines; victims are they, if they are to be named.
func (t *emittedEvents) addMachines(count int, victims []plan.Victim, now time.Time) {
	if count > 0 {
		if t.count == 0 {
			t.since = now
		}
		t.count += count
		t.victims = append(t.victims, victims...)
	}
}

// dueIn returns how long what was gathered has to wait; 0 if it is told now, or if there is nothing. In a rollout more will
// follow, so the first one waits too.
func (t *emittedEvents) dueIn(rollout bool, now time.Time) time.Duration {
	if t.count == 0 || t.count >= tellAtOnce {
		return 0
	}
	from := t.last
	if rollout && t.since.After(from) {
		from = t.since
	}
	return max(from.Add(tellEvery).Sub(now), 0)
}

// takeGathered returns what was gathered, and starts over.
func (t *emittedEvents) takeGathered(now time.Time) (int, []plan.Victim) {
	count, victims := t.count, t.victims
	*t = emittedEvents{last: now}
	return count, victims
}

// emitEvents sends the events that are due, and returns when the next one is.
func (c *Controller) emitEvents(s *scope, now time.Time) time.Duration {
	made, deleted := &s.known.made, &s.known.deleted
	waits := [...]time.Duration{made.dueIn(s.rollout, now), deleted.dueIn(s.rollout, now)}
	if made.count > 0 && waits[0] == 0 {
		count, _ := made.takeGathered(now)
		createdEvent(count).Send(c.Recorder, s.set)
	}
	if deleted.count > 0 && waits[1] == 0 {
		deletedEvent(deleted.takeGathered(now)).Send(c.Recorder, s.set)
	}
	if waits[0] == 0 || waits[1] != 0 && waits[1] < waits[0] {
		return waits[1]
	}
	return waits[0]
}
