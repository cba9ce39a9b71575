package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// The fields by which FleetApprovals are listed: those of one rollout of one fleet, however many others there are.
const (
	ApprovalFleet   = "spec.fleetUID"
	ApprovalRollout = "spec.rollout"
)

// Approval is a FleetApproval for a rollout.
type Approval struct {
	plan.Approval
	Name    string
	uid     types.UID
	By      string
	Created time.Time
}

// approvals are those for one rollout, one for each group: the oldest.
type approvals []Approval

func (a approvals) plannedApprovals() []plan.Approval {
	var all []plan.Approval
	for _, one := range a {
		all = append(all, one.Approval)
	}
	return all
}

func (a approvals) approvalOf(group string) *Approval {
	if i := slices.IndexFunc(a, func(one Approval) bool { return one.Group == group }); i >= 0 {
		return &a[i]
	}
	return nil
}

// NumberOf is the number of the current rollout of a fleet: the generation at which the hub first saw its revision, or its
// spec.retriedAt. It only ever rises, also when the status is lost, so no approval of an earlier rollout counts again.
func NumberOf(fleet *v1alpha1.MachineFleet, revision string) int64 {
	status := &fleet.Status
	if status.Rollout > 0 && status.Revision == revision && status.RetriedAt.Equal(fleet.Spec.RetriedAt) {
		return status.Rollout
	}
	return fleet.Generation
}

// Approvals returns the FleetApprovals for the rollout that a fleet's status shows, the oldest first.
func Approvals(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet) ([]v1alpha1.FleetApproval, error) {
	return ListApprovals(ctx, reader, fleet, fleet.Status.Revision, fleet.Status.Rollout)
}

// ListApprovals lists those of one rollout of a MachineFleet or a SimulatedClusterSet that are not being deleted, the oldest first.
func ListApprovals(ctx context.Context, reader client.Reader, of metav1.Object, revision string, rollout int64) ([]v1alpha1.FleetApproval, error) {
	kind := v1alpha1.ApprovedFleet
	if _, is := of.(*v1alpha1.SimulatedClusterSet); is {
		kind = v1alpha1.ApprovedSet
	}
	list := &v1alpha1.FleetApprovalList{}
	ofRollout := client.MatchingFields{ApprovalFleet: string(of.GetUID()), ApprovalRollout: fmt.Sprint(rollout)}
	err := reader.List(ctx, list, ofRollout)
	if apierrors.IsBadRequest(err) { // An API server before 1.31 cannot select by fields of a kind like this.
		err = reader.List(ctx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the approvals of %s: %w", of.GetName(), err)
	}
	found := slices.DeleteFunc(list.Items, func(a v1alpha1.FleetApproval) bool {
		return a.NotDecoded() != "" || a.DeletionTimestamp != nil || a.Spec.FleetUID != string(of.GetUID()) || a.Spec.Fleet != of.GetName() ||
			cmp.Or(a.Spec.Kind, v1alpha1.ApprovedFleet) != kind ||
			a.Spec.Rollout != rollout || a.Spec.Revision != revision
	})
	slices.SortFunc(found, func(a, b v1alpha1.FleetApproval) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// addApprovals reads the approvals for the current rollout. Each is found in the cache; of those by which something is changed, the API
// server is asked whether they are still there.
func (r *Observer) addApprovals(ctx context.Context, reader sources, s *Scope) error {
	wanted := s.GatedGroups()
	if len(wanted) == 0 {
		return nil
	}
	found, err := ListApprovals(ctx, r.Client, s.Fleet, s.Revision, s.Rollout)
	if err != nil {
		return err
	}
	for _, one := range found {
		a := Approval{
			Approval: plan.Approval{Fleet: one.Spec.FleetUID, Revision: one.Spec.Revision, Rollout: one.Spec.Rollout, Group: one.Spec.Group},
			Name:     one.Name, uid: one.UID, By: one.Spec.Approver, Created: one.CreationTimestamp.Time,
		}
		if !slices.Contains(wanted, a.Group) || s.Approvals.approvalOf(a.Group) != nil {
			continue
		}
		if reader.live {
			if there, err := r.isThere(ctx, a); err != nil {
				return err
			} else if !there {
				continue
			}
		}
		s.Approvals = append(s.Approvals, a)
	}
	return nil
}

// GatedGroups are those whose approval may matter; none if no group needs one.
func (s *Scope) GatedGroups() []string {
	var groups []string
	gated := s.promise != nil && len(s.promise.Approval) > 0
	if gated {
		groups = append(groups, s.promise.Approval...)
	}
	for _, group := range s.Fleet.Spec.Groups {
		gated = gated || group.Approval == v1alpha1.GroupApprovalRequired
		groups = append(groups, group.Name)
	}
	if !gated {
		return nil
	}
	return groups
}

// NeedsApproval reports whether a group needs an approval, or did when the rollout started, or may be the name that such a group has now.
func (s *Scope) NeedsApproval(group string) bool {
	required := func(name string) bool {
		return slices.ContainsFunc(s.Fleet.Spec.Groups, func(g v1alpha1.MachineFleetGroup) bool {
			return g.Name == name && g.Approval == v1alpha1.GroupApprovalRequired
		})
	}
	if required(group) || s.promise == nil {
		return required(group)
	}
	isGone := func(name string) bool { return !s.hasGroup(name) }
	isNew := s.hasGroup(group) && !slices.Contains(s.promise.Groups, group)
	return slices.Contains(s.promise.Approval, group) || isNew && slices.ContainsFunc(s.promise.Approval, isGone)
}

// AwaitsApproval reports whether approvals may be given for a revision that no cluster has started. A hub that is started then has to know
// the revision again, however the spec is written by that time.
func (s *Scope) AwaitsApproval() bool {
	return s.Invalid == nil && s.Fleet.DeletionTimestamp == nil && !s.freezeVerdict().Frozen && len(s.GatedGroups()) > 0 && !s.hasStarted()
}

// isThere asks the API server whether an approval still exists.
func (r *Observer) isThere(ctx context.Context, a Approval) (bool, error) {
	current := &v1alpha1.FleetApproval{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: a.Name}, current)
	switch {
	case apierrors.IsNotFound(err), undecodable.Is(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the approval %s again: %w", a.Name, err)
	}
	return current.UID == a.uid && current.DeletionTimestamp == nil, nil
}

// IsApproved looks again, before the revision is started in a cluster, whether the approvals by which it may be are still there.
func (r *Observer) IsApproved(ctx context.Context, s *Scope, m *Member) (bool, error) {
	in, cluster := s.planInput(true), s.plannedCluster(m)
	if !in.NeedsApproval(cluster) {
		return true, nil
	}
	in.Approvals = nil
	for _, a := range s.Approvals {
		there, err := r.isThere(ctx, a)
		if err != nil {
			return false, err
		}
		if there {
			in.Approvals = append(in.Approvals, a.Approval)
		}
	}
	return in.AwaitedGroup(cluster) == "", nil
}
