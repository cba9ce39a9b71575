package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
)

// A decision is carried out in batches, after each of which it is taken again: it is true for as long only as what it rests on.
const (
	mostWrites   = 50
	longestBatch = 2 * time.Second
	// longestDecision is how old what was read may be when the first write of a decision is made, such as in a process that was
	// stopped in between.
	longestDecision = 30 * time.Second
	// leadMargin is how long before another hub can be elected nothing is written any more: a write takes its time.
	leadMargin = 2 * time.Second
	// restAfter is when the rest of a decision is looked at.
	restAfter = time.Millisecond
)

// batch is what may be written of one decision.
type batch struct {
	*Controller
	scope   *rollout.Scope
	started time.Time
	// leadsUntil is when another hub can be elected at the earliest; nil until it is read.
	leadsUntil *time.Time
	writes     int
	// over: no more may be written. err is why that could not be found out; nil if it could.
	over bool
	err  error
}

func (c *Controller) newBatch(s *rollout.Scope) *batch {
	return &batch{Controller: c, scope: s, started: c.Clock.Now()}
}

// mayWrite looks again, before each write, whether what it rests on is still so: whoever pauses, freezes or aborts a fleet, changes
// its spec, freezes a cluster or takes it away is obeyed by the next write.
func (b *batch) mayWrite(ctx context.Context, w rollout.Write) bool {
	if b.over {
		return false
	}
	leads, err := b.isLeader(ctx)
	if !leads || err != nil {
		b.over, b.err = true, err
		return false
	}
	now := b.Clock.Now()
	same := b.writes < mostWrites && now.Sub(b.started) <= longestBatch && b.started.Sub(b.scope.Now) <= longestDecision
	if same {
		same, b.err = b.isSame(ctx, w, now)
	}
	b.over = !same
	b.writes++
	return same
}

// isLeader reports whether this hub is the one that was elected. The Lease is read once for each batch, and then no other hub can be elected
// before it is over: a hub that was stopped and resumed writes nothing more, and leaves the decision to the next one.
func (b *batch) isLeader(ctx context.Context) (bool, error) {
	if b.Leads == nil {
		return true, nil
	}
	if b.leadsUntil == nil {
		until, err := b.Leads(ctx)
		if err != nil {
			return false, err
		}
		b.leadsUntil = &until
	}
	if !b.Clock.Now().Add(leadMargin).Before(*b.leadsUntil) {
		return false, errNotLeading
	}
	return true, nil
}

// errNotLeading ends a decision, about which nothing is reported either.
var errNotLeading = errors.New("another hub may have been elected: nothing was written")

// isSame reports whether fleet, cluster and maintenance windows still allow a write. Only that of a record alone does without a read
// of the API server: it changes nothing in the cluster.
func (b *batch) isSame(ctx context.Context, w rollout.Write, now time.Time) (bool, error) {
	var reader client.Reader = b.Client
	acts := w.Content != nil || w.Removes
	if acts {
		reader = b.Live
	}
	before, fleet := b.scope.Fleet, &v1alpha1.MachineFleet{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(before), fleet); err != nil {
		return false, client.IgnoreNotFound(wrapError("reading the machine fleet before a write", err))
	}
	if fleet.UID != before.UID || fleet.Generation != before.Generation || fleet.DeletionTimestamp != nil || freeze.OfAnnotation("MachineFleet", fleet).Frozen {
		return false, nil
	}
	if !acts {
		return true, nil
	}
	cluster := &v1alpha1.Cluster{}
	if err := b.Live.Get(ctx, client.ObjectKeyFromObject(w.Member.Cluster), cluster); err != nil {
		return false, client.IgnoreNotFound(wrapError("reading the cluster before a write", err))
	}
	m := w.Member
	if cluster.UID != m.Cluster.UID || cluster.Accepted() != m.Cluster.Accepted() || !maps.Equal(cluster.Labels, m.Cluster.Labels) || freeze.OfCluster(cluster.Name, cluster.Name, cluster).Frozen {
		return false, nil
	}
	return b.isAllowed(ctx, w, fleet, cluster, now)
}

// isAllowed reports whether maintenance windows and approvals still allow a write.
func (b *batch) isAllowed(ctx context.Context, w rollout.Write, fleet *v1alpha1.MachineFleet, cluster *v1alpha1.Cluster, now time.Time) (bool, error) {
	if !b.scope.IsOpen(w, fleet, cluster, now) {
		return false, nil
	}
	if !w.Begins {
		return true, nil
	}
	return b.observer.IsApproved(ctx, b.scope, w.Member)
}

func wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
