package machineset

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hollowfleet/hollowfleet/hub/internal/clustermetrics"
	"github.com/hollowfleet/hollowfleet/internal/backoff"
	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

// The bounds of creation, per set.
const (
	// creationsAtOnce bounds what one reconciliation creates, deletes or updates, so that a freeze or another
	// number of replicas is seen in between.
	creationsAtOnce = 250
	// After a refusal, nothing is created for firstPause, after each further one for twice as long, up to
	// longestPause.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	// As long as the API server took the last ones within acceptance, the first batch need not be a single Machine.
	acceptance = time.Minute
	// Within creationWindow a set makes at most creationsPerReplica × replicas + creationsExtra Machines, not
	// counting those that it deleted itself. A set of that many Machines replaces all of them once and has some to
	// spare; one whose Machines vanish or are taken from it as fast as it makes them is stopped.
	creationWindow      = 10 * time.Minute
	creationsPerReplica = 2
	creationsExtra      = 10
)

// failureBackoff bounds how fast one set creates Machines. The zero value is ready for use.
type failureBackoff struct {
	failures int
	retryAt  time.Time
	// acceptedAt is when the API server took all Machines; zero if it refused one since then.
	acceptedAt time.Time
	failure    *outcome.Failure
	changes    []change
}

// change is a number of Machines made, or deleted if negative.
type change struct {
	at    time.Time
	count int
}

// noteRefused notes that the API server refused a Machine after it had taken others.
func (b *failureBackoff) noteRefused(failure *outcome.Failure, created int, now time.Time) {
	if created > 0 {
		b.failures = 0
	}
	b.failures++
	b.retryAt, b.failure, b.acceptedAt = now.Add(backoff.Delay(b.failures, firstPause, longestPause)), failure, time.Time{}
}

// noteAccepted notes that the API server took all Machines.
func (b *failureBackoff) noteAccepted(now time.Time) {
	b.failures, b.retryAt, b.failure, b.acceptedAt = 0, time.Time{}, nil, now
}

// atOnce is how many Machines the first batch of a creation may have.
func (b *failureBackoff) atOnce(now time.Time) int {
	if b.acceptedAt.IsZero() || now.Sub(b.acceptedAt) > acceptance {
		return 1
	}
	return parallelCalls
}

// countMachines notes Machines made, or deleted if negative.
func (b *failureBackoff) countMachines(machines int, now time.Time) {
	if machines != 0 {
		b.changes = append(b.changes, change{now, machines})
	}
}

// creationVerdict is what a failureBackoff says about creation now: how many Machines at most, or why none, and when to ask again.
type creationVerdict struct {
	most    int
	why     string
	after   time.Duration
	runaway bool
}

func (b *failureBackoff) verdictAt(replicas int, now time.Time) creationVerdict {
	if wait := b.retryAt.Sub(now); wait > 0 {
		return creationVerdict{why: "the last attempt was refused", after: wait}
	}
	for len(b.changes) > 0 && now.Sub(b.changes[0].at) >= creationWindow {
		b.changes = b.changes[1:]
	}
	made := 0
	for _, change := range b.changes {
		made = max(made+change.count, 0)
	}
	limit := creationsPerReplica*replicas + creationsExtra
	if made >= limit {
		return creationVerdict{
			why: fmt.Sprintf("%d machines were created within %s for %d replicas: creation is paused; find out what removes "+
				"them or changes their labels", made, creationWindow, replicas),
			after: b.changes[0].at.Add(creationWindow).Sub(now), runaway: true,
		}
	}
	return creationVerdict{most: min(limit-made, creationsAtOnce)}
}

// parallelCalls bounds the API calls of one reconciliation that are under way at once.
const parallelCalls = 16

// slowStart calls do count times in batches of first, twice as many, and so on, and stops after the batch in which one
// fails: an API server that refuses them all is asked first times, not count times. Each call gets its number, from 0
// on. It returns how many calls succeeded.
func slowStart(count, first int, do func(int) error) (succeeded int, err error) {
	for done, batch := 0, first; done < count; batch *= 2 {
		batch = min(batch, count-done)
		ok, err := inParallel(batch, func(i int) error { return do(done + i) })
		succeeded += ok
		if err != nil {
			return succeeded, err
		}
		done += batch
	}
	return succeeded, nil
}

// inParallel calls do for 0 to count-1, some at a time, and returns how many calls succeeded and the first error: a
// refused batch has one cause.
func inParallel(count int, do func(int) error) (int, error) {
	var succeeded atomic.Int64
	var calls errgroup.Group
	calls.SetLimit(parallelCalls)
	for i := range count {
		calls.Go(func() error {
			err := do(i)
			if err == nil {
				succeeded.Add(1)
			}
			return err
		})
	}
	err := calls.Wait()
	return int(succeeded.Load()), err
}

// What the hub has done about the Machines of each cluster.
var (
	machinesCreated = clustermetrics.NewCounter("hollowfleet_hub_machines_created_total",
		"Machines that the hub has created, by cluster.")
	machinesDeleted = clustermetrics.NewCounter("hollowfleet_hub_machines_deleted_total",
		"Machines that the hub has deleted, by cluster.")
	machinesReplaced = clustermetrics.NewCounter("hollowfleet_hub_machines_replaced_total",
		"Failed Machines that the hub has deleted to replace them, by cluster.")
	createFailures = clustermetrics.NewCounter("hollowfleet_hub_machine_create_failures_total",
		"Batches of Machines of which some could not be created, by cluster.")
)
