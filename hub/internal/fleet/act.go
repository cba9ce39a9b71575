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
	"github.com/hollowfleet/hollowfleet/internal/telemetry"
)

// fieldOwner is who the API server says wrote what the controller writes.
const fieldOwner = client.FieldOwner("hollowfleet-fleet")

// act carries a decision out. What rests on nothing is tried in every cluster. rest: something is left over, which rests on how
// things are now.
func (c *Controller) act(ctx context.Context, s *scope, d decision) (rest bool, err error) {
	klog.FromContext(ctx).V(2).Info("Carrying out plan", "revision", s.revision, "wave", d.plan.Wave,
		"changes", len(d.changes), "corrections", len(d.corrections), "removals", len(d.removals))
	b := c.newBatch(s)
	all := []error{c.writeChanges(ctx, b, d.changes)}
	for _, correction := range d.corrections {
		if b.mayWrite(ctx, correction) {
			all = append(all, c.writeMember(ctx, s, correction))
		}
	}
	for _, m := range d.removals {
		if b.mayWrite(ctx, write{member: m, removes: true}) {
			all = append(all, c.deleteDeployment(ctx, s, m))
		}
	}
	return b.over, joinErrors(append(all, b.err))
}

// writeChanges writes the changes of a plan. They rest on each other, so the first that fails is the last of them, and a template is
// kept before it is applied.
func (c *Controller) writeChanges(ctx context.Context, b *batch, changes []write) error {
	for _, change := range changes {
		if !b.mayWrite(ctx, change) {
			return nil
		}
		if change.begins {
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
func (c *Controller) writeMember(ctx context.Context, s *scope, w write) error {
	m, r := w.member, w.record
	if r == nil {
		r = m.record
	}
	adopted := m.deployment != nil && m.record == nil
	patch, err := c.sendPatch(ctx, s.fleet, m, w.content, r)
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		c.refused.Record(place{s.fleet.UID, m.cluster.Name}, err, s.now)
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing machine deployment %s/%s: %w", m.cluster.Name, s.fleet.Name, err)
	case adopted:
		emitEvent(c.Recorder, s.fleet, adoptedEvent(m.deployment))
	case w.binds:
	case w.record == nil:
		c.noteCorrection(s, w, patch)
		emitEvent(c.Recorder, s.fleet, correctedEvent(m.deployment, changedFields(patch)))
	case w.rollsBack:
		emitEvent(c.Recorder, s.fleet, rolledBackEvent(m.deployment, r))
	}
	m.record = r
	return nil
}

// sendPatch returns the patch that it sends; nil if the object is created, or nothing is to be changed.
func (c *Controller) sendPatch(ctx context.Context, fleet *v1alpha1.MachineFleet, m *member, content *applied, r *record) (patch []byte, err error) {
	if m.deployment == nil {
		r.Namespace = m.cluster.Name
		created, err := content.newDeployment(fleet.Name, r)
		if err != nil {
			return nil, err
		}
		telemetry.Stamp(ctx, created)
		return nil, c.Client.Create(ctx, created, fieldOwner)
	}
	r = r.bindTo(m.deployment)
	if content != nil {
		if patch, err = content.mergePatch(m.deployment, r); err == nil && patch != nil {
			patch, err = stampPatch(patch, telemetry.Traceparent(ctx))
		}
	} else {
		patch, err = recordPatch(m.deployment, r)
	}
	if err != nil || patch == nil {
		return nil, err
	}
	// What comes back goes into an object of its own: that which was read may be the cache's.
	into := &v1alpha1.MachineDeployment{ObjectMeta: *m.deployment.ObjectMeta.DeepCopy()}
	return patch, c.Client.Patch(ctx, into, client.RawPatch(types.MergePatchType, patch), fieldOwner)
}

// deleteDeployment deletes the MachineDeployment of a cluster that has left the fleet, if it is still as it was read.
func (c *Controller) deleteDeployment(ctx context.Context, s *scope, m *member) error {
	uid, resourceVersion := m.deployment.UID, m.deployment.ResourceVersion
	err := c.Client.Delete(ctx, m.deployment.DeepCopy(), client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("deleting machine deployment %s/%s: %w", m.cluster.Name, s.fleet.Name, err)
	}
	emitEvent(c.Recorder, s.fleet, removedEvent(m.deployment))
	return nil
}
