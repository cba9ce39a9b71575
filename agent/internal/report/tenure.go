package report

import (
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// tenure knows whether this agent is the one that works for its cluster: the one that holds the Lease.
//
// Everything counts by this process' own clock, from when it saw or did something: what another wrote into the
// Lease may come from a clock that is wrong. An agent counts as holder for three quarters of the Lease's duration
// after it began its last renewal, another may take the Lease after the whole of it; so the one has stopped
// before the other begins, also when it is cut off or suspended.
type tenure struct {
	holder string
	clock  clock.PassiveClock

	mu sync.Mutex
	// since is when this process began to look. renewed is when the last renewal that succeeded was begun, and
	// duration what was written then.
	since, renewed time.Time
	duration       time.Duration
	// rival holds the Lease; seen is its last renewal, seenAt when this process first saw that.
	rival              string
	rivalSince, seenAt time.Time
	seen               string
}

func newTenure(holder string, clock clock.PassiveClock) *tenure {
	return &tenure{holder: holder, clock: clock, since: clock.Now()}
}

// consider takes in the Lease as it stands and tells whether this agent may write itself into it.
func (t *tenure) consider(lease *coordinationv1.Lease) (may bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder == "" || holder == t.holder {
		t.rival = ""
		return true
	}
	if t.rival != holder {
		t.rival, t.rivalSince, t.seen = holder, now, ""
	}
	if renewal := fmt.Sprint(lease.UID, lease.ResourceVersion); t.seen != renewal {
		t.seen, t.seenAt = renewal, now
	}
	return now.Sub(t.seenAt) >= durationOf(lease)
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(max(ptr.Deref(lease.Spec.LeaseDurationSeconds, v1alpha1.DefaultHeartbeat.GraceSeconds), 1)) * time.Second
}

// renewing takes in that a renewal is begun. Its answer may be lost: if it makes the Lease shorter, others count by
// that from now on.
func (t *tenure) renewing(lease *coordinationv1.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.duration = min(t.duration, durationOf(lease))
}

// renewedBy takes in a renewal that was begun at a time.
func (t *tenure) renewedBy(lease *coordinationv1.Lease, begun time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rival, t.renewed, t.duration = "", begun, durationOf(lease)
}

// lost tells who has taken the Lease from this agent, which has held it before.
func (t *tenure) lost() (to string, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rival, t.rival != "" && !t.renewed.IsZero()
}

// barred tells why this agent may not act now.
func (t *tenure) barred() (why freeze.Bar, barred bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := t.renewed.Add(t.duration * 3 / 4)
	switch {
	case t.rival != "":
		return freeze.Bar{Reason: v1alpha1.ReasonAnotherAgent, Since: t.rivalSince, Message: fmt.Sprintf(
			"agent %q holds the cluster's Lease; this one stands by until the Lease is given up or no longer renewed", t.rival)}, true
	case t.renewed.IsZero():
		return freeze.Bar{Reason: v1alpha1.ReasonLeaseNotHeld, Since: t.since, Message: "the cluster's Lease is not taken yet"}, true
	case !t.clock.Now().Before(until):
		return freeze.Bar{Reason: v1alpha1.ReasonLeaseNotHeld, Since: until, Message: fmt.Sprintf(
			"the cluster's Lease was last renewed at %s, so another agent may take it", t.renewed.UTC().Format(time.RFC3339))}, true
	}
	return freeze.Bar{}, false
}
