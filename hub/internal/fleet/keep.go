package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// mostTemplates is how many templates of a fleet are kept to go back to, besides those that some cluster still has.
const mostTemplates = 10

// keepTemplate stores the template of a fleet before a cluster gets it, so that a user can go back to it, with the clusters that the
// fleet has now, and removes those templates that are too many. It returns whether it had anything to do.
func (c *Controller) keepTemplate(ctx context.Context, s *rollout.Scope) (bool, error) {
	taken := s.SnapshotToKeep()
	if c.observer.IsKept(s, taken) {
		return false, nil
	}
	all, err := rollout.Templates(ctx, c.Live, s.Fleet)
	if err != nil {
		return false, err
	}
	next := int64(1)
	if len(all) > 0 {
		next = all[len(all)-1].Number + 1
	}
	at := slices.IndexFunc(all, func(t rollout.Template) bool { return t.Revision == s.Revision })
	switch {
	case at >= 0 && taken.IsEmpty():
	case at < 0:
		err = c.storeTemplate(ctx, s, next, taken)
	case !s.HasSnapshot() && all[at].Members == nil && at == len(all)-1: // With which clusters it was started is not known any more.
		err = c.beginAgain(ctx, all[at].Kept, all[at].Number, taken)
	case !s.HasSnapshot(): // It was gone back to, or is started again.
		err = c.beginAgain(ctx, all[at].Kept, next, taken)
	default:
		taken = all[at].Snapshot()
	}
	if err != nil {
		return false, fmt.Errorf("keeping the template of machine fleet %s: %w", s.Fleet.Name, err)
	}
	c.observer.NoteKept(s, taken)
	return true, c.removeOldTemplates(ctx, s, all)
}

// keepPending stores the templates of a fleet while groups wait for an approval and no cluster has started them: one object for each fleet.
func (c *Controller) keepPending(ctx context.Context, s *rollout.Scope) error {
	if last, _ := c.pending.ValueOf(s.Fleet.UID); last == s.Revision || !s.AwaitsApproval() {
		return nil
	}
	found, err := rollout.PendingTemplate(ctx, c.Live, s.Fleet)
	if err == nil && !slices.ContainsFunc(found, func(t rollout.Template) bool { return t.Revision == s.Revision }) {
		err = c.storePending(ctx, s, found)
	}
	if err != nil {
		return fmt.Errorf("keeping the template of machine fleet %s until it is approved: %w", s.Fleet.Name, err)
	}
	c.pending.SetValue(s.Fleet.UID, s.Revision)
	return nil
}

// storePending replaces what is kept. The data of a ControllerRevision cannot be changed.
func (c *Controller) storePending(ctx context.Context, s *rollout.Scope, old []rollout.Template) error {
	for _, t := range old {
		uid := t.Kept.UID
		if err := c.Client.Delete(ctx, t.Kept, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	wanted, err := c.newRevisionObject(s)
	if err != nil {
		return err
	}
	wanted.Name, wanted.Labels = "", map[string]string{v1alpha1.FleetPendingLabel: s.Fleet.Name}
	wanted.GenerateName = s.Fleet.Name + "-pending-"
	return c.Client.Create(ctx, wanted, rollout.FieldOwner)
}

// beginAgain notes that a revision which is kept is started with other clusters or another spec, or with another number.
func (c *Controller) beginAgain(ctx context.Context, kept *appsv1.ControllerRevision, number int64, taken rollout.Snapshot) error {
	changed := kept.DeepCopy()
	changed.Revision = number
	if err := rollout.SetSnapshot(changed, taken); err != nil {
		return err
	}
	return c.Client.Patch(ctx, changed, reconciler.MergeFromWithLock(kept), rollout.FieldOwner)
}

// newRevisionObject is what the template of a fleet is kept in.
func (c *Controller) newRevisionObject(s *rollout.Scope) (*appsv1.ControllerRevision, error) {
	text, err := json.Marshal(s.Content)
	if err != nil {
		return nil, err
	}
	owner := metav1.NewControllerRef(s.Fleet, v1alpha1.GroupVersion.WithKind("MachineFleet"))
	owner.BlockOwnerDeletion = nil // It would need a right to finalizers, and nothing waits for it.
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.HubNamespace, Name: s.Fleet.Name + "-" + s.Revision,
			Labels:          map[string]string{v1alpha1.MachineFleetNameLabel: s.Fleet.Name},
			Annotations:     map[string]string{v1alpha1.FleetRevisionAnnotation: s.Revision},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Data: runtime.RawExtension{Raw: text},
	}, nil
}

func (c *Controller) storeTemplate(ctx context.Context, s *rollout.Scope, number int64, taken rollout.Snapshot) error {
	wanted, err := c.newRevisionObject(s)
	if err != nil {
		return err
	}
	wanted.Revision = number
	if err := rollout.SetSnapshot(wanted, taken); err != nil {
		return err
	}
	err = c.Client.Create(ctx, wanted, rollout.FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		// That of a fleet of this name that was deleted goes away with it, by the garbage collector. The error is not wrapped:
		// the Runner takes it for a conflict, which is not an error.
		return fmt.Errorf("controller revision %s/%s-%s belongs to another object; trying again: %s", v1alpha1.HubNamespace, s.Fleet.Name, s.Revision, err.Error())
	}
	return err
}

// removeOldTemplates removes the oldest templates beyond the limit, but none that a cluster has.
func (c *Controller) removeOldTemplates(ctx context.Context, s *rollout.Scope, templates []rollout.Template) error {
	inUse := map[string]bool{s.Revision: true}
	for _, m := range slices.Concat(s.Members, s.Left) {
		if m.Record != nil {
			inUse[m.Record.Revision], inUse[m.Record.TemplateRevision()] = true, true
		}
	}
	var all []error
	unused := slices.DeleteFunc(slices.Clone(templates), func(t rollout.Template) bool { return inUse[t.Revision] })
	for _, t := range unused[:max(len(unused)-mostTemplates, 0)] {
		uid := t.Kept.UID
		if err := c.Client.Delete(ctx, t.Kept, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			all = append(all, fmt.Errorf("removing controller revision %s: %w", t.Kept.Name, err))
		}
	}
	return errors.Join(all...)
}
