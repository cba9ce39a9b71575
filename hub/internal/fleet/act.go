package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// act carries a decision out. What rests on nothing is tried in every cluster. rest: something is left over, which rests on how
// things are now.
func (c *Controller) act(ctx context.Context, s *rollout.Scope, d rollout.Decision) (rest bool, err error) {
	klog.FromContext(ctx).V(2).Info("Carrying out plan", "revision", s.Revision, "wave", d.Plan.Wave,
		"changes", len(d.Changes), "corrections", len(d.Corrections), "removals", len(d.Removals))
	b := c.newBatch(s)
	all := []error{c.writeChanges(ctx, b, d.Changes)}
	for _, correction := range d.Corrections {
		if b.mayWrite(ctx, correction) {
			all = append(all, c.writeMember(ctx, s, correction))
		}
	}
	for _, m := range d.Removals {
		if b.mayWrite(ctx, rollout.Write{Member: m, Removes: true}) {
			all = append(all, c.deleteDeployment(ctx, s, m))
		}
	}
	return b.over, joinErrors(append(all, b.err))
}

// writeChanges writes the changes of a plan. They rest on each other, so the first that fails is the last of them, and a template is
// kept before it is applied.
func (c *Controller) writeChanges(ctx context.Context, b *batch, changes []rollout.Write) error {
	for _, change := range changes {
		if !b.mayWrite(ctx, change) {
			return nil
		}
		if change.Begins {
			kept, err := c.keepTemplate(ctx, b.scope)
			if err != nil {
				return err
			}
			if kept && !b.mayWrite(ctx, change) { // That took its time.
				return nil
			}
		}
		if err := c.writeMember(ctx, b.scope, change); err != nil {
			return err
		}
	}
	return nil
}

// joinErrors returns the errors as one, and of conflicts only if there are no others: the Runner takes a conflict for no error.
func joinErrors(all []error) error {
	var conflict error
	var others []error
	for _, err := range all {
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			conflict = err
		} else if err != nil {
			others = append(others, err)
		}
	}
	if len(others) == 0 {
		return conflict
	}
	return errors.Join(others...)
}

// writeMember writes to one MachineDeployment, template and record in one request: neither is there without the other. The lock
// keeps it from resting on another version than was read.
func (c *Controller) writeMember(ctx context.Context, s *rollout.Scope, w rollout.Write) error {
	m, r := w.Member, w.Record
	if r == nil {
		r = m.Record
	}
	adopted := m.Deployment != nil && m.Record == nil
	patch, err := c.sendPatch(ctx, s.Fleet, m, w.Content, r)
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		c.observer.NoteWrite(s.Fleet.UID, m.Cluster.Name, err, s.Now)
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing machine deployment %s/%s: %w", m.Cluster.Name, s.Fleet.Name, err)
	case adopted:
		emitEvent(c.Recorder, s.Fleet, adoptedEvent(m.Deployment))
	case w.Binds:
	case w.Record == nil:
		c.observer.NoteCorrection(s, w, patch)
		emitEvent(c.Recorder, s.Fleet, correctedEvent(m.Deployment, rollout.ChangedFields(patch)))
	case w.RollsBack:
		emitEvent(c.Recorder, s.Fleet, rolledBackEvent(m.Deployment, r))
	}
	m.Record = r
	return nil
}

// sendPatch returns the patch that it sends; nil if the object is created, or nothing is to be changed.
func (c *Controller) sendPatch(ctx context.Context, fleet *v1alpha1.MachineFleet, m *rollout.Member, content *rollout.Applied, r *rollout.Record) (patch []byte, err error) {
	if m.Deployment == nil {
		r.Namespace = m.Cluster.Name
		created, err := content.NewDeployment(fleet.Name, r)
		if err != nil {
			return nil, err
		}
		telemetry.Stamp(ctx, created)
		return nil, c.Client.Create(ctx, created, rollout.FieldOwner)
	}
	r = r.BindTo(m.Deployment)
	if content != nil {
		if patch, err = content.MergePatch(m.Deployment, r); err == nil && patch != nil {
			patch, err = stampPatch(patch, telemetry.Traceparent(ctx))
		}
	} else {
		patch, err = rollout.RecordPatch(m.Deployment, r)
	}
	if err != nil || patch == nil {
		return nil, err
	}
	// What comes back goes into an object of its own: that which was read may be the cache's.
	into := &v1alpha1.MachineDeployment{ObjectMeta: *m.Deployment.ObjectMeta.DeepCopy()}
	return patch, c.Client.Patch(ctx, into, client.RawPatch(types.MergePatchType, patch), rollout.FieldOwner)
}

// deleteDeployment deletes the MachineDeployment of a cluster that has left the fleet, if it is still as it was read.
func (c *Controller) deleteDeployment(ctx context.Context, s *rollout.Scope, m *rollout.Member) error {
	uid, resourceVersion := m.Deployment.UID, m.Deployment.ResourceVersion
	err := c.Client.Delete(ctx, m.Deployment.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("deleting machine deployment %s/%s: %w", m.Cluster.Name, s.Fleet.Name, err)
	}
	emitEvent(c.Recorder, s.Fleet, removedEvent(m.Deployment))
	return nil
}

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
	if cluster.UID != m.Cluster.UID || cluster.Accepted() != m.Cluster.Accepted() || cluster.IsLeaving() != m.Cluster.IsLeaving() ||
		!maps.Equal(cluster.Labels, m.Cluster.Labels) || freeze.OfCluster(cluster.Name, cluster.Name, cluster).Frozen {
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
