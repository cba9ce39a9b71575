package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// retry is how soon a renewal that failed is tried again, and how often the Lease of another agent is read.
const retry = 2 * time.Second

// ErrLeaseLost says that another agent has taken the Lease that this one held. It must not continue: what it has in
// its queues was decided before. Its next start stands by.
var ErrLeaseLost = errors.New("another agent has taken the cluster's Lease")

// renewLease renews the Lease if this agent holds it, or may take it, and returns when to come again.
func (r *Reporter) renewLease(ctx context.Context, cluster *v1alpha1.Cluster, now time.Time) time.Time {
	soon := now.Add(min(retry, renewalPeriod(cluster)))
	taken, longest := false, longestWrite
	if r.lease == nil {
		longest = longestReturn
	}
	if !r.attemptWrite(ctx, longest, "Lease", func(ctx context.Context) (err error) {
		taken, err = r.writeLease(ctx, cluster)
		return err
	}) || !taken {
		return soon
	}
	// The next renewal counts from when this one was due, not from when it was done.
	return now.Add(renewalPeriod(cluster))
}

// writeLease writes the Lease. Its times are of the agent's clock, which may be wrong: the hub judges by when it sees
// the Lease change, and so do agents that stand by.
func (r *Reporter) writeLease(ctx context.Context, cluster *v1alpha1.Cluster) (taken bool, err error) {
	namespace := cluster.Status.Namespace
	read := r.lease == nil || r.lease.Namespace != namespace
	if read {
		if err := r.readLease(ctx, namespace); err != nil {
			return false, err
		}
	}
	if !r.Lease.mayRenew(r.lease) {
		r.lease = nil // It is read again each time.
		return false, nil
	}
	if read {
		if err := r.checkHub(ctx, cluster); err != nil {
			r.lease = nil
			return false, err
		}
	}
	if err := r.reportFrozen(ctx, cluster); err != nil {
		r.lease = nil
		return false, err
	}
	started := r.Clock.Now()
	next := r.lease.DeepCopy()
	if holder := ptr.Deref(next.Spec.HolderIdentity, ""); holder == "" || !r.Lease.isPredecessor(holder) {
		next.Spec.AcquireTime = ptr.To(metav1.NewMicroTime(started))
		next.Spec.LeaseTransitions = ptr.To(ptr.Deref(next.Spec.LeaseTransitions, -1) + 1)
	}
	next.Spec.HolderIdentity = ptr.To(r.Lease.holder)
	next.Spec.RenewTime = ptr.To(metav1.NewMicroTime(started))
	next.Spec.LeaseDurationSeconds = ptr.To(cluster.Heartbeat().GraceSeconds)
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[v1alpha1.ActedAnnotation] = r.Freeze.Uptime().String()
	r.Lease.beginRenewal(next)
	r.HubIdentity.Renewing(ctx, next)
	if next.ResourceVersion == "" {
		err = r.Client.Create(ctx, next)
	} else {
		err = r.Client.Update(ctx, next)
	}
	if err != nil {
		// Another client has written or removed it, or this write came through after all: read it again.
		r.lease = nil
		return false, fmt.Errorf("writing Lease %s/%s: %w", namespace, v1alpha1.AgentLeaseName, err)
	}
	r.lease = next
	// A hold of the Lease that has lapsed meanwhile was a freeze, also if no caller asked while it had.
	r.Freeze.Refresh()
	r.Lease.endRenewal(next, started)
	r.HubIdentity.Renewed(next)
	return true, nil
}

// checkHub looks at the hub before a renewal that does not follow on the one before, and at the Cluster as the hub has it: what
// the agent wrote of itself last may or may not have got through.
func (r *Reporter) checkHub(ctx context.Context, cluster *v1alpha1.Cluster) error {
	if err := r.HubIdentity.CheckLease(ctx, r.lease); err != nil {
		return err
	}
	live := &v1alpha1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(cluster), live); err != nil {
		return fmt.Errorf("getting Cluster %s: %w", cluster.Name, err)
	}
	if live.UID != cluster.UID {
		return fmt.Errorf("renewing the Lease of Cluster %s: it was recreated just now", cluster.Name)
	}
	r.Last.Seen(live)
	return nil
}

// reportFrozen lets a frozen agent say so on the Cluster before it renews the Lease: a hub that hears the agent acts on what
// stands there, and after a silence that is what the agent said before it.
func (r *Reporter) reportFrozen(ctx context.Context, cluster *v1alpha1.Cluster) error {
	if _, blocked := r.HubIdentity.Blocked(); !blocked && !r.Freeze.Refresh().Frozen {
		return nil
	}
	now := r.Last.Cluster()
	if now == nil || now.UID != cluster.UID {
		return fmt.Errorf("renewing the Lease of Cluster %s: it was recreated just now", cluster.Name)
	}
	return r.writeStatus(ctx, now)
}

// isOutdated reports whether the Lease still keeps what it showed before a hub that is judged by now.
func (r *Reporter) isOutdated() bool {
	if r.lease == nil {
		return false
	}
	_, kept := r.lease.Annotations[v1alpha1.ShownRenewalAnnotation]
	_, judged := r.HubIdentity.Finding()
	return kept && judged
}

func (r *Reporter) readLease(ctx context.Context, namespace string) error {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: namespace, Name: v1alpha1.AgentLeaseName}
	err := r.Client.Get(ctx, key, lease)
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.AgentLeaseName}}
	} else if err != nil {
		return fmt.Errorf("getting Lease %s: %w", key, err)
	}
	r.lease = lease
	r.Freeze.Remember(freeze.ParseUptime(lease.Annotations[v1alpha1.ActedAnnotation]))
	return nil
}

// Release gives the Lease up, so that another agent need not wait until it expires. It is for an agent that has
// stopped acting, and not to be called while Start runs.
func (r *Reporter) Release(ctx context.Context) error {
	if _, blocked := r.Lease.Blocked(); blocked || r.lease == nil {
		return nil
	}
	next := r.lease.DeepCopy()
	next.Spec.HolderIdentity = ptr.To("")
	if err := r.Client.Update(ctx, next); err != nil {
		return fmt.Errorf("releasing Lease %s/%s: %w", next.Namespace, next.Name, err)
	}
	return nil
}

// LeaseHolder knows whether this agent is the one that works for its cluster: the one that holds the Lease. It is there before the
// agent has an identity, and holds nothing until Identify.
//
// Everything counts by this process' own clock, from when it saw or did something: what another wrote into the
// Lease may come from a clock that is wrong. An agent counts as holder for three quarters of the Lease's duration
// after it started its last renewal, another may take the Lease after the whole of it; so the one has stopped
// before the other starts, also when it is cut off or suspended.
//
// A process has an identity of its own, and knows the renewals that it has written: a copy of a running machine has the
// same memory, and with it the same identity, and writes others.
type LeaseHolder struct {
	// holder is empty before Identify; standby is why, if another process has the agent's identity.
	holder  string
	standby *freeze.Blocker
	// predecessors are identities of processes that are known to have ended. This one continues with their Lease.
	predecessors []string
	clock        clock.PassiveClock

	mu sync.Mutex
	// since is when this process started to look. renewed is when the last renewal that succeeded was started, and
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

// NewLeaseHolder returns the LeaseHolder of a process that has no identity yet.
func NewLeaseHolder(clock clock.PassiveClock) *LeaseHolder {
	return &LeaseHolder{clock: clock, since: clock.Now()}
}

// Identify gives this process its identity in the Lease. predecessors are the identities of those that are known to have ended, so that
// this one continues with their Lease at once. It comes before the Reporter's Start.
func (l *LeaseHolder) Identify(holder string, predecessors []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder, l.predecessors, l.standby, l.since = holder, predecessors, nil, l.clock.Now()
}

// IsIdentified reports whether this process has an identity.
func (l *LeaseHolder) IsIdentified() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder != ""
}

// StandBy says why this process cannot have an identity yet, and reports whether that is news.
func (l *LeaseHolder) StandBy(message string) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.standby != nil {
		return false
	}
	l.standby = &freeze.Blocker{Reason: v1alpha1.ReasonAnotherAgent, Since: l.clock.Now(), Message: message}
	return true
}

// isPredecessor reports whether a holder of the Lease is this process, or one before it that has ended.
func (l *LeaseHolder) isPredecessor(holder string) bool {
	return holder == l.holder || slices.Contains(l.predecessors, holder)
}

// isCopied reports whether a Lease that names this process was renewed by another one. One that shows an older renewal than
// the last confirmed is the hub's doing, such as of one that was restored, and is judged elsewhere.
func (l *LeaseHolder) isCopied(lease *coordinationv1.Lease) bool {
	if ptr.Deref(lease.Spec.HolderIdentity, "") != l.holder {
		return false
	}
	renewal := renewalOf(lease)
	return renewal.After(l.confirmed) && !slices.ContainsFunc(l.attempted, renewal.Equal)
}

// renewalOf is when a Lease says that it was renewed, as precisely as a Lease tells times.
func renewalOf(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.UTC().Truncate(time.Microsecond)
}

// Observe takes in the Lease as another part of this agent has just read it: it may tell sooner than the next renewal that a copy
// of this process has renewed it.
func (l *LeaseHolder) Observe(lease *coordinationv1.Lease) {
	l.mu.Lock()
	lost := !l.renewed.IsZero() && l.isCopied(lease)
	l.mu.Unlock()
	if lost {
		l.mayRenew(lease)
	}
}

// mayRenew takes in the Lease as it stands and reports whether this agent may write itself into it.
func (l *LeaseHolder) mayRenew(lease *coordinationv1.Lease) (may bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	copied := l.isCopied(lease)
	if !copied && (holder == "" || l.isPredecessor(holder)) {
		l.rival = ""
		return true
	}
	if copied {
		holder += " (another process with the same memory)"
	}
	if l.rival != holder {
		l.rival, l.rivalSince, l.seen = holder, now, ""
	}
	if renewal := fmt.Sprint(lease.UID, lease.ResourceVersion); l.seen != renewal {
		l.seen, l.seenAt = renewal, now
	}
	return !copied && now.Sub(l.seenAt) >= durationOf(lease)
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(max(ptr.Deref(lease.Spec.LeaseDurationSeconds, v1alpha1.DefaultHeartbeat.GraceSeconds), 1)) * time.Second
}

// beginRenewal takes in that a renewal is started. Its answer may be lost: if it makes the Lease shorter, others count by
// that from now on.
func (l *LeaseHolder) beginRenewal(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.duration = min(l.duration, durationOf(lease))
	l.attempted = append(l.attempted, renewalOf(lease))
	l.attempted = l.attempted[max(0, len(l.attempted)-maxAttempted):]
}

// endRenewal takes in a renewal that was started at a time.
func (l *LeaseHolder) endRenewal(lease *coordinationv1.Lease, started time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rival, l.renewed, l.duration = "", started, durationOf(lease)
	// What was attempted before can no more be carried out: it names a version of the Lease that has passed.
	l.confirmed, l.attempted, l.predecessors = renewalOf(lease), nil, nil
}

// lostTo tells who has taken the Lease from this agent, which has held it before.
func (l *LeaseHolder) lostTo() (to string, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rival, l.rival != "" && !l.renewed.IsZero()
}

// Blocked tells why this agent may not act now, however well the API servers are. It is a freeze.BlockerFunc.
func (l *LeaseHolder) Blocked() (why freeze.Blocker, blocked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.standby != nil:
		return *l.standby, true
	case l.rival != "":
		return freeze.Blocker{Reason: v1alpha1.ReasonAnotherAgent, Since: l.rivalSince, Message: fmt.Sprintf(
			"agent %q holds the cluster's Lease; this one stands by until the Lease is released or no longer renewed", l.rival)}, true
	case l.renewed.IsZero():
		return freeze.Blocker{Reason: v1alpha1.ReasonLeaseNotHeld, Since: l.since, Message: "the cluster's Lease is not held yet"}, true
	case freeze.Passed(l.renewed, l.clock.Now()) >= l.duration*3/4:
		return freeze.Blocker{Reason: v1alpha1.ReasonLeaseNotHeld, Since: l.renewed.Add(l.duration * 3 / 4), Message: fmt.Sprintf(
			"the cluster's Lease was last renewed at %s, so another agent may take it", l.renewed.UTC().Format(time.RFC3339))}, true
	}
	return freeze.Blocker{}, false
}
