package clusterstatus

import (
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// leaseHolder knows whether this agent is the one that works for its cluster: the one that holds the Lease.
//
// Everything counts by this process' own clock, from when it saw or did something: what another wrote into the
// Lease may come from a clock that is wrong. An agent counts as holder for three quarters of the Lease's duration
// after it began its last renewal, another may take the Lease after the whole of it; so the one has stopped
// before the other begins, also when it is cut off or suspended.
//
// A process has an identity of its own, and knows the renewals that it has written: a copy of a running machine has the
// same memory, and with it the same identity, and writes others.
type leaseHolder struct {
	holder string
	// predecessors are identities of processes that are known to have ended. This one goes on with their Lease.
	predecessors []string
	clock        clock.PassiveClock

	mu sync.Mutex
	// since is when this process began to look. renewed is when the last renewal that succeeded was begun, and
	// duration what was written then.
	since, renewed time.Time
	duration       time.Duration
	// confirmed is the last renewal that the hub has confirmed; attempted are those after it whose answers were lost, or are
	// on their way, in their order.
	confirmed time.Time
	attempted []time.Time
	// rival holds the Lease; seen is its last renewal, seenAt when this process first saw that.
	rival              string
	rivalSince, seenAt time.Time
	seen               string
}

// maxAttempted bounds the renewals that are remembered without an answer. There is one every few seconds, and an API server
// carries no request out that is minutes old.
const maxAttempted = 100

func newLeaseHolder(holder string, predecessors []string, clock clock.PassiveClock) *leaseHolder {
	return &leaseHolder{holder: holder, predecessors: predecessors, clock: clock, since: clock.Now()}
}

// continues tells whether a holder of the Lease is this process, or one before it that has ended.
func (t *leaseHolder) continues(holder string) bool {
	return holder == t.holder || slices.Contains(t.predecessors, holder)
}

// copied tells whether a Lease that names this process was renewed by another one. One that shows an older renewal than
// the last confirmed is the hub's doing, such as of one that was restored, and is judged elsewhere.
func (t *leaseHolder) copied(lease *coordinationv1.Lease) bool {
	if ptr.Deref(lease.Spec.HolderIdentity, "") != t.holder {
		return false
	}
	renewal := renewalOf(lease)
	return renewal.After(t.confirmed) && !slices.ContainsFunc(t.attempted, renewal.Equal)
}

// renewalOf is when a Lease says that it was renewed, as precisely as a Lease tells times.
func renewalOf(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.UTC().Truncate(time.Microsecond)
}

// observe takes in the Lease as another part of this agent has just read it: it may tell sooner than the next renewal that a copy
// of this process has renewed it.
func (t *leaseHolder) observe(lease *coordinationv1.Lease) {
	t.mu.Lock()
	lost := !t.renewed.IsZero() && t.copied(lease)
	t.mu.Unlock()
	if lost {
		t.mayRenew(lease)
	}
}

// mayRenew takes in the Lease as it stands and tells whether this agent may write itself into it.
func (t *leaseHolder) mayRenew(lease *coordinationv1.Lease) (may bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	copied := t.copied(lease)
	if !copied && (holder == "" || t.continues(holder)) {
		t.rival = ""
		return true
	}
	if copied {
		holder += " (another process with the same memory)"
	}
	if t.rival != holder {
		t.rival, t.rivalSince, t.seen = holder, now, ""
	}
	if renewal := fmt.Sprint(lease.UID, lease.ResourceVersion); t.seen != renewal {
		t.seen, t.seenAt = renewal, now
	}
	return !copied && now.Sub(t.seenAt) >= durationOf(lease)
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(max(ptr.Deref(lease.Spec.LeaseDurationSeconds, v1alpha1.DefaultHeartbeat.GraceSeconds), 1)) * time.Second
}

// beginRenewal takes in that a renewal is begun. Its answer may be lost: if it makes the Lease shorter, others count by
// that from now on.
func (t *leaseHolder) beginRenewal(lease *coordinationv1.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.duration = min(t.duration, durationOf(lease))
	t.attempted = append(t.attempted, renewalOf(lease))
	t.attempted = t.attempted[max(0, len(t.attempted)-maxAttempted):]
}

// endRenewal takes in a renewal that was begun at a time.
func (t *leaseHolder) endRenewal(lease *coordinationv1.Lease, begun time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rival, t.renewed, t.duration = "", begun, durationOf(lease)
	// What was attempted before can no more be carried out: it names a version of the Lease that has passed.
	t.confirmed, t.attempted, t.predecessors = renewalOf(lease), nil, nil
}

// lost tells who has taken the Lease from this agent, which has held it before.
func (t *leaseHolder) lost() (to string, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rival, t.rival != "" && !t.renewed.IsZero()
}

// blocked tells why this agent may not act now.
func (t *leaseHolder) blocked() (why freeze.Blocker, barred bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := t.renewed.Add(t.duration * 3 / 4)
	switch {
	case t.rival != "":
		return freeze.Blocker{Reason: v1alpha1.ReasonAnotherAgent, Since: t.rivalSince, Message: fmt.Sprintf(
			"agent %q holds the cluster's Lease; this one stands by until the Lease is given up or no longer renewed", t.rival)}, true
	case t.renewed.IsZero():
		return freeze.Blocker{Reason: v1alpha1.ReasonLeaseNotHeld, Since: t.since, Message: "the cluster's Lease is not taken yet"}, true
	case freeze.Passed(t.renewed, t.clock.Now()) >= t.duration*3/4:
		return freeze.Blocker{Reason: v1alpha1.ReasonLeaseNotHeld, Since: until, Message: fmt.Sprintf(
			"the cluster's Lease was last renewed at %s, so another agent may take it", t.renewed.UTC().Format(time.RFC3339))}, true
	}
	return freeze.Blocker{}, false
}
