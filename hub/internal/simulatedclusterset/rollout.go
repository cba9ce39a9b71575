package simulatedclusterset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	fleetplan "github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/waves"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

const (
	// keptAfter is when a rollout continues whose start has just been kept in the status, and restAfter when the rest of a decision does.
	keptAfter, restAfter = 100 * time.Millisecond, time.Millisecond
	// mostStarts is how many writes rest on one decision.
	mostStarts = 50
	// leadMargin is how long before another hub can be elected nothing is written any more.
	leadMargin = 2 * time.Second
)

// addWaves adds to a scope what the rollout of the version rests on.
func (c *Controller) addWaves(ctx context.Context, s *scope) error {
	s.rollout = &waves.Scope{Set: s.set, Frozen: s.frozen, Now: c.Clock.Now()}
	for _, member := range s.input.Members {
		one := s.members[member.Ordinal]
		m := &waves.Member{One: one, Cluster: s.clusters[one.Name], Host: c.holdOf(one.Namespace, s.clusters[one.Namespace]), HeardAt: c.Agents.RenewedAt(one.Namespace)}
		if m.Cluster != nil && m.Cluster.Annotations[v1alpha1.SimulatedClusterAnnotation] != one.ProofOfSimulation() {
			m.Cluster = nil
		}
		if m.Agent = c.Agents.Verdict(m.Cluster); m.Cluster != nil && meta.IsStatusConditionTrue(m.Cluster.Status.Conditions, v1alpha1.ClusterJoinedCondition) {
			if at := c.Agents.RenewedAt(m.Cluster.Name); at.Before(m.HeardAt) {
				m.HeardAt = at
			}
		}
		if one.Spec.Versions != s.set.Spec.Template.Spec.Versions {
			var err error
			if m.Machine, err = c.findOldestKubelet(ctx, one.Name); err != nil {
				return err
			}
		}
		s.rollout.Members = append(s.rollout.Members, m)
	}
	wanted := s.rollout.GatedGroups()
	if len(wanted) == 0 {
		return nil
	}
	found, err := rollout.ListApprovals(ctx, c.Client, s.set, waves.RevisionOf(s.set), waves.NumberOf(s.set))
	if err != nil {
		return err
	}
	for _, one := range found {
		if slices.Contains(wanted, one.Spec.Group) {
			s.rollout.Approvals = append(s.rollout.Approvals, waves.Approval{
				Approval: fleetplan.Approval{Fleet: one.Spec.FleetUID, Revision: one.Spec.Revision, Rollout: one.Spec.Rollout, Group: one.Spec.Group},
				Name:     one.Name, UID: one.UID, By: one.Spec.Approver,
			})
		}
	}
	return nil
}

// findOldestKubelet finds a Machine of a cluster with the oldest kubelet among those that say which they have; nil if none does.
func (c *Controller) findOldestKubelet(ctx context.Context, cluster string) (*v1alpha1.Machine, error) {
	list := &v1alpha1.MachineList{}
	if err := c.Client.List(ctx, list, client.InNamespace(cluster), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the machines of Cluster %s: %w", cluster, err)
	}
	var oldest *v1alpha1.Machine
	for i := range list.Items {
		one := &list.Items[i]
		if kubelet := one.Spec.Versions.Kubelet; kubelet != "" && (oldest == nil || v1alpha1.IsEarlierMinor(kubelet, oldest.Spec.Versions.Kubelet)) {
			oldest = one
		}
	}
	return oldest, nil
}

// writeRollout carries the decision about a rollout out. Its writes rest on each other, so the first that fails is the last, and each looks
// again whether what it rests on is still so. rest: something is left over.
func (c *Controller) writeRollout(ctx context.Context, s *scope, d waves.Decision, deleted []plan.Place) (rest bool, err error) {
	for i, w := range d.Writes {
		if slices.ContainsFunc(deleted, func(at plan.Place) bool { return plan.NameOf(s.set.Name, at.Ordinal) == w.Member.One.Name }) {
			return true, nil
		}
		if i == mostStarts {
			return true, nil
		}
		if may, err := c.mayWrite(ctx, s, w); err != nil || !may {
			return err == nil, err
		}
		if err := c.patchMember(ctx, w.Member.One, func(one *v1alpha1.SimulatedCluster) {
			metav1.SetMetaDataAnnotation(&one.ObjectMeta, v1alpha1.FleetRecordAnnotation, w.Record.AnnotationValue())
			if w.Starts {
				one.Spec.Versions = s.set.Spec.Template.Spec.Versions
			}
		}); err != nil {
			return false, err
		}
		if w.Starts {
			startedEvent(w.Member.One, waves.RevisionOf(s.set)).Send(c.Recorder, s.set)
		}
	}
	return false, nil
}

// errNotLeading ends a decision.
var errNotLeading = errors.New("another hub may have been elected: nothing was written")

// mayWrite reports whether set, host, cluster, windows and approvals are still as the decision found them.
func (c *Controller) mayWrite(ctx context.Context, s *scope, w waves.Write) (bool, error) {
	if c.Leads != nil {
		until, err := c.Leads(ctx)
		if err != nil {
			return false, err
		}
		if !c.Clock.Now().Add(leadMargin).Before(until) {
			return false, errNotLeading
		}
	}
	current := &v1alpha1.SimulatedClusterSet{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(s.set), current); err != nil {
		return false, wrapError("reading the simulated cluster set again", client.IgnoreNotFound(err))
	}
	if !isSameSet(current, s.set) || w.Starts && !equality.Semantic.DeepEqual(current.Status.Rollout.Started, s.set.Status.Rollout.Started) {
		return false, nil
	}
	if !w.Starts {
		return true, nil
	}
	if err := c.checkHost(ctx, w.Member.One.Namespace); err != nil {
		return false, err
	}
	if same, err := c.isSameCluster(ctx, w.Member); err != nil || !same {
		return false, err
	}
	if !s.rollout.IsOpen(w.Member, c.Clock.Now()) {
		return false, nil
	}
	return c.isApproved(ctx, s, w.Member)
}

// isSameCluster reports whether the Cluster of a member still has the labels by which it was chosen, and is not frozen.
func (c *Controller) isSameCluster(ctx context.Context, m *waves.Member) (bool, error) {
	if m.Cluster == nil {
		return true, nil
	}
	current := &v1alpha1.Cluster{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(m.Cluster), current); err != nil {
		return false, wrapError("reading the Cluster again", client.IgnoreNotFound(err))
	}
	return current.UID == m.Cluster.UID && maps.Equal(current.Labels, m.Cluster.Labels) && !freeze.OfAnnotation("Cluster", current).Frozen, nil
}

// isApproved asks the API server whether the approvals by which a member may be started are still there.
func (c *Controller) isApproved(ctx context.Context, s *scope, m *waves.Member) (bool, error) {
	if !s.rollout.NeedsApproval(m) {
		return true, nil
	}
	var there []waves.Approval
	for _, a := range s.rollout.Approvals {
		current := &v1alpha1.FleetApproval{}
		err := c.Live.Get(ctx, client.ObjectKey{Name: a.Name}, current)
		switch {
		case apierrors.IsNotFound(err), undecodable.Is(err):
		case err != nil:
			return false, fmt.Errorf("reading the approval %s again: %w", a.Name, err)
		case current.UID == a.UID && current.DeletionTimestamp == nil:
			there = append(there, a)
		}
	}
	return s.rollout.IsApproved(m, there), nil
}

// keepStart puts what the rollout keeps to into the status.
func keepStart(s *scope, d waves.Decision) error {
	if d.Keep == nil {
		return nil
	}
	raw, err := d.Keep.Raw()
	if err != nil {
		return fmt.Errorf("starting the rollout of %s: %w", waves.RevisionOf(s.set), err)
	}
	s.set.Status.Rollout.Started = raw
	return nil
}

// nextRollout is when the rollout is to be looked at again.
func (c *Controller) nextRollout(s *scope, d waves.Decision, rest bool) reconciler.Next {
	for _, m := range s.rollout.Members {
		if !slices.Contains(d.Plan.AwaitingNews, m.One.Name) {
			continue
		}
		for _, name := range []string{m.One.Namespace, m.One.Name} {
			c.Agents.AwaitRenewal(name, m.HeardAt)
		}
	}
	next := reconciler.Next{After: d.Plan.RecheckAfter}
	if at := s.rollout.OpensAt(d.Plan); !at.IsZero() {
		next = next.NoLaterThan(max(at.Sub(c.Clock.Now()), restAfter))
	}
	if d.Keep != nil {
		next = next.NoLaterThan(keptAfter)
	}
	if rest {
		next = next.NoLaterThan(restAfter)
	}
	return next
}

func startedEvent(one *v1alpha1.SimulatedCluster, revision string) reconciler.Event {
	return reconciler.NormalEvent("UpgradeStarted", "Upgrade", fmt.Sprintf("Upgrading the control plane of SimulatedCluster %s to %s", one.Name, revision)).With(one)
}
