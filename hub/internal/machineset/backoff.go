package machineset

import (
	"fmt"
	"time"
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
	failure    *actError
	changes    []change
}

// change is a number of Machines made, or deleted if negative.
type change struct {
	at    time.Time
	count int
}

// refused notes that the API server refused a Machine after it had taken others.
func (b *failureBackoff) refused(failure *actError, created int, now time.Time) {
	if created > 0 {
		b.failures = 0
	}
	pause := longestPause
	if b.failures < 16 { // Far beyond longestPause, and far below an overflow.
		pause = min(firstPause<<b.failures, longestPause)
	}
	b.failures++
	b.retryAt, b.failure, b.acceptedAt = now.Add(pause), failure, time.Time{}
}

// accepted notes that the API server took all Machines.
func (b *failureBackoff) accepted(now time.Time) {
	b.failures, b.retryAt, b.failure, b.acceptedAt = 0, time.Time{}, nil, now
}

// atOnce is how many Machines the first batch of a creation may have.
func (b *failureBackoff) atOnce(now time.Time) int {
	if b.acceptedAt.IsZero() || now.Sub(b.acceptedAt) > acceptance {
		return 1
	}
	return parallelCalls
}

// count notes Machines made, or deleted if negative.
func (b *failureBackoff) count(machines int, now time.Time) {
	if machines != 0 {
		b.changes = append(b.changes, change{now, machines})
	}
}

// backoffState is what brake says about creation now: how many Machines at most, or why none, and when to ask again.
type backoffState struct {
	most    int
	why     string
	after   time.Duration
	runaway bool
}

func (b *failureBackoff) verdict(replicas int, now time.Time) backoffState {
	if wait := b.retryAt.Sub(now); wait > 0 {
		return backoffState{why: "the last attempt was refused", after: wait}
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
		return backoffState{
			why: fmt.Sprintf("%d machines were made within %s for %d replicas: creation waits, look for what removes "+
				"them or changes their labels", made, creationWindow, replicas),
			after: b.changes[0].at.Add(creationWindow).Sub(now), runaway: true,
		}
	}
	return backoffState{most: min(limit-made, creationsAtOnce)}
}
