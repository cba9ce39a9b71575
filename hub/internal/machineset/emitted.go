package machineset

import (
	"time"

	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

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

// add notes what has happened to count Machines; victims are they, if they are to be named.
func (t *emittedEvents) add(count int, victims []plan.Victim, now time.Time) {
	if count > 0 {
		if t.count == 0 {
			t.since = now
		}
		t.count += count
		t.victims = append(t.victims, victims...)
	}
}

// due returns how long what was gathered has to wait; 0 if it is told now, or if there is nothing. In a rollout more will
// follow, so the first one waits too.
func (t *emittedEvents) due(rollout bool, now time.Time) time.Duration {
	if t.count == 0 || t.count >= tellAtOnce {
		return 0
	}
	from := t.last
	if rollout && t.since.After(from) {
		from = t.since
	}
	return max(from.Add(tellEvery).Sub(now), 0)
}

// take returns what was gathered, and begins anew.
func (t *emittedEvents) take(now time.Time) (int, []plan.Victim) {
	count, victims := t.count, t.victims
	*t = emittedEvents{last: now}
	return count, victims
}

// emitEvents sends the events that are due, and returns when the next one is.
func (c *Controller) emitEvents(s *scope, now time.Time) time.Duration {
	made, deleted := &s.known.made, &s.known.deleted
	waits := [...]time.Duration{made.due(s.rollout, now), deleted.due(s.rollout, now)}
	if made.count > 0 && waits[0] == 0 {
		count, _ := made.take(now)
		createdEvent(count).Send(c.Recorder, s.set)
	}
	if deleted.count > 0 && waits[1] == 0 {
		deletedEvent(deleted.take(now)).Send(c.Recorder, s.set)
	}
	if waits[0] == 0 || waits[1] != 0 && waits[1] < waits[0] {
		return waits[1]
	}
	return waits[0]
}
