package fleet

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
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
