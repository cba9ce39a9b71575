package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// ledgerInterval is how long a record waits at most for more news, unless it is urgent.
const ledgerInterval = 20 * time.Second

// ledger has the rollouts of a fleet. What it says of a cluster is what the record on its MachineDeployment says, so what a hub did
// not write before its end is written by the next one.
type ledger struct {
	rollouts []*stored
	written  time.Time
}

// newestRollout is the newest rollout of a revision; nil if there is none.
func (l *ledger) newestRollout(revision string) *stored {
	for _, r := range slices.Backward(l.rollouts) {
		if r.Revision == revision {
			return r
		}
	}
	return nil
}

func (l *ledger) isDirty() bool {
	return slices.ContainsFunc(l.rollouts, func(r *stored) bool { return r.dirty })
}

// recordBefore writes what a decision is about to overwrite: what happened to an earlier revision in a cluster.
func (c *Controller) recordBefore(ctx context.Context, s *rollout.Scope, d rollout.Decision) error {
	overwrites := len(d.Removals) > 0 || slices.ContainsFunc(d.Changes, func(w rollout.Write) bool { return w.Begins && w.Member.Record != nil })
	if !overwrites || s.Invalid != nil {
		return nil
	}
	l, err := c.observeLedger(ctx, s)
	if err != nil {
		return err
	}
	return c.writeLedger(ctx, s, l)
}

// recordRollouts brings the records of a fleet's rollouts up to date, after its status was computed. It returns when it wants to do so again.
func (c *Controller) recordRollouts(ctx context.Context, s *rollout.Scope) (time.Duration, error) {
	if s.Invalid != nil || s.Fleet.DeletionTimestamp != nil {
		return 0, nil
	}
	if known, _ := c.ledgers.ValueOf(s.Fleet.UID); known == nil && s.AtRest() {
		return 0, nil // A fleet at rest costs no read, also after a restart.
	}
	l, err := c.observeLedger(ctx, s)
	if err != nil {
		return 0, err
	}
	if current := l.newestRollout(s.Revision); current != nil {
		current.noteTurn(s, meta.FindStatusCondition(s.Fleet.Status.Conditions, v1alpha1.ProgressingCondition))
	}
	if !l.isDirty() {
		return 0, nil
	}
	urgent := slices.ContainsFunc(l.rollouts, func(r *stored) bool { return r.urgent })
	if wait := ledgerInterval - s.Now.Sub(l.written); wait > 0 && !urgent {
		return wait, nil
	}
	return 0, c.writeLedger(ctx, s, l)
}

// observeLedger notes in the ledger what the clusters' records say.
func (c *Controller) observeLedger(ctx context.Context, s *rollout.Scope) (*ledger, error) {
	l, _ := c.ledgers.ValueOf(s.Fleet.UID)
	if l == nil {
		all, err := rollout.Rollouts(ctx, c.Live, s.Fleet)
		if err != nil {
			return nil, err
		}
		l = &ledger{}
		for _, r := range all {
			l.rollouts = append(l.rollouts, &stored{Rollout: r})
		}
		c.ledgers.SetValue(s.Fleet.UID, l)
	}
	seen, err := c.noteMembers(ctx, s, l)
	if err != nil {
		return nil, err
	}
	for _, r := range l.rollouts {
		if r.Revision != s.Revision && r.Superseded == "" {
			r.Superseded, r.dirty, r.urgent = rollout.FormatTime(s.Now), true, true
		}
	}
	if current := l.newestRollout(s.Revision); current != nil && current.Superseded == "" {
		current.noteLeft(s, seen)
		c.noteApprovals(ctx, s, current)
	}
	return l, nil
}

// noteMembers notes how far each cluster is in the rollout of the revision that it has, and returns the names of the clusters.
func (c *Controller) noteMembers(ctx context.Context, s *rollout.Scope, l *ledger) (map[string]bool, error) {
	seen := map[string]bool{}
	for _, m := range slices.Concat(s.Members, s.Left) {
		if m.Record == nil || seen[m.Cluster.Name] {
			continue
		}
		seen[m.Cluster.Name] = true
		revision := rollout.FleetRevision(m.Record.Revision)
		r := l.newestRollout(revision)
		if revision == s.Revision && (r == nil || r.Superseded != "" && rollout.StampOf(m.Record.Began) >= r.Superseded) {
			var err error
			if r, err = c.openRollout(ctx, s, l); err != nil {
				return nil, err
			}
		}
		if r != nil {
			r.noteMember(s, m)
		}
	}
	return seen, nil
}

// openRollout adds the rollout of the current revision, which a cluster has.
func (c *Controller) openRollout(ctx context.Context, s *rollout.Scope, l *ledger) (*stored, error) {
	templates, err := rollout.Templates(ctx, c.Live, s.Fleet)
	if err != nil {
		return nil, err
	}
	r := &stored{Rollout: rollout.Rollout{Revision: s.Revision, Started: rollout.FormatTime(s.Now)}, dirty: true, urgent: true}
	for _, t := range templates {
		if t.Revision == s.Revision {
			r.Number = t.Number
		}
	}
	l.rollouts = append(l.rollouts, r)
	return r, nil
}

// writeLedger writes the rollouts that have changed, and removes those that are too many.
func (c *Controller) writeLedger(ctx context.Context, s *rollout.Scope, l *ledger) error {
	var all []error
	for i, r := range l.rollouts {
		if !r.dirty {
			continue
		}
		order := int64(1)
		if i > 0 && l.rollouts[i-1].Object != nil {
			order = l.rollouts[i-1].Object.Revision + 1
		}
		all = append(all, c.writeRollout(ctx, s, r, order))
	}
	l.written = s.Now
	if err := joinErrors(all); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			c.ledgers.SetValue(s.Fleet.UID, nil) // Another hub has written it, or it was removed: it is read again.
		}
		return err
	}
	for len(l.rollouts) > mostRollouts {
		oldest := l.rollouts[0].Object
		uid := oldest.UID
		if err := c.Client.Delete(ctx, oldest, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the oldest rollout of machine fleet %s: %w", s.Fleet.Name, err)
		}
		l.rollouts = l.rollouts[1:]
	}
	return nil
}

func (c *Controller) writeRollout(ctx context.Context, s *rollout.Scope, r *stored, order int64) error {
	text, err := r.recordText()
	if err != nil {
		return fmt.Errorf("writing the rollout of machine fleet %s as text: %w", s.Fleet.Name, err)
	}
	if r.Object != nil {
		changed := r.Object.DeepCopy()
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.FleetRolloutAnnotation, text)
		if err := c.Client.Patch(ctx, changed, reconciler.MergeFromWithLock(r.Object), rollout.FieldOwner); err != nil {
			return fmt.Errorf("recording the rollout of machine fleet %s: %w", s.Fleet.Name, err)
		}
		r.Object, r.dirty, r.urgent = changed, false, false
		return nil
	}
	data, err := json.Marshal(map[string]string{"revision": r.Revision})
	if err != nil {
		return err
	}
	owner := metav1.NewControllerRef(s.Fleet, v1alpha1.GroupVersion.WithKind("MachineFleet"))
	owner.BlockOwnerDeletion = nil // It would need a right to finalizers, and nothing waits for it.
	created := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.HubNamespace, GenerateName: fmt.Sprintf("%s-%s-rollout-", s.Fleet.Name, r.Revision),
			Labels:          map[string]string{v1alpha1.FleetRolloutLabel: s.Fleet.Name},
			Annotations:     map[string]string{v1alpha1.FleetRolloutAnnotation: text},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: order,
	}
	if err := c.Client.Create(ctx, created, rollout.FieldOwner); err != nil {
		return fmt.Errorf("recording the rollout of machine fleet %s: %w", s.Fleet.Name, err)
	}
	r.Object, r.dirty, r.urgent = created, false, false
	return nil
}
