package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// The fields by which FleetApprovals are listed: those of one rollout of one fleet, however many others there are.
const (
	approvalFleet   = "spec.fleetUID"
	approvalRollout = "spec.rollout"
)

// approval is a FleetApproval for a rollout.
type approval struct {
	plan.Approval
	name    string
	uid     types.UID
	by      string
	created time.Time
}

// approvals are those for one rollout, one for each group: the oldest.
type approvals []approval

func (a approvals) plannedApprovals() []plan.Approval {
	var all []plan.Approval
	for _, one := range a {
		all = append(all, one.Approval)
	}
	return all
}

func (a approvals) approvalOf(group string) *approval {
	if i := slices.IndexFunc(a, func(one approval) bool { return one.Group == group }); i >= 0 {
		return &a[i]
	}
	return nil
}

// rolloutNumber is the number of the current rollout of a fleet: the generation at which the hub first saw its revision, or its
// spec.retriedAt. It only ever rises, also when the status is lost, so no approval of an earlier rollout counts again.
func rolloutNumber(fleet *v1alpha1.MachineFleet, revision string) int64 {
	status := &fleet.Status
	if status.Rollout > 0 && status.Revision == revision && status.RetriedAt.Equal(fleet.Spec.RetriedAt) {
		return status.Rollout
	}
	return fleet.Generation
}

// Approvals returns the FleetApprovals for the rollout that a fleet's status shows, the oldest first.
func Approvals(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet) ([]v1alpha1.FleetApproval, error) {
	return listApprovals(ctx, reader, fleet, fleet.Status.Revision, fleet.Status.Rollout)
}

// listApprovals lists those of one rollout that are not being deleted.
func listApprovals(ctx context.Context, reader client.Reader, fleet *v1alpha1.MachineFleet, revision string, rollout int64) ([]v1alpha1.FleetApproval, error) {
	list := &v1alpha1.FleetApprovalList{}
	ofRollout := client.MatchingFields{approvalFleet: string(fleet.UID), approvalRollout: fmt.Sprint(rollout)}
	err := reader.List(ctx, list, ofRollout)
	if apierrors.IsBadRequest(err) { // An API server before 1.31 cannot select by fields of a kind like this.
		err = reader.List(ctx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the approvals of machine fleet %s: %w", fleet.Name, err)
	}
	found := slices.DeleteFunc(list.Items, func(a v1alpha1.FleetApproval) bool {
		return a.NotDecoded() != "" || a.DeletionTimestamp != nil || a.Spec.FleetUID != string(fleet.UID) || a.Spec.Fleet != fleet.Name ||
			a.Spec.Rollout != rollout || a.Spec.Revision != revision
	})
	slices.SortFunc(found, func(a, b v1alpha1.FleetApproval) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// addApprovals reads the approvals for the current rollout. Each is found in the cache; of those by which something is changed, the API
// server is asked whether they are still there.
func (c *Controller) addApprovals(ctx context.Context, reader sources, s *scope) error {
	wanted := s.gatedGroups()
	if len(wanted) == 0 {
		return nil
	}
	var cached client.Reader = c.Client
	if c.preview {
		cached = reader.Reader
	}
	found, err := listApprovals(ctx, cached, s.fleet, s.revision, s.rollout)
	if c.preview && (apierrors.IsForbidden(err) || meta.IsNoMatchError(err)) {
		return nil // A user who looks at the fleet need not have the right to see them.
	}
	if err != nil {
		return err
	}
	for _, one := range found {
		a := approval{
			Approval: plan.Approval{Fleet: one.Spec.FleetUID, Revision: one.Spec.Revision, Rollout: one.Spec.Rollout, Group: one.Spec.Group},
			name:     one.Name, uid: one.UID, by: one.Spec.Approver, created: one.CreationTimestamp.Time,
		}
		if !slices.Contains(wanted, a.Group) || s.approvals.approvalOf(a.Group) != nil {
			continue
		}
		if reader.live {
			if there, err := c.isThere(ctx, a); err != nil {
				return err
			} else if !there {
				continue
			}
		}
		s.approvals = append(s.approvals, a)
	}
	return nil
}

// gatedGroups are those whose approval may matter; none if no group needs one.
func (s *scope) gatedGroups() []string {
	var groups []string
	gated := s.promise != nil && len(s.promise.Approval) > 0
	if gated {
		groups = append(groups, s.promise.Approval...)
	}
	for _, group := range s.fleet.Spec.Groups {
		gated = gated || group.Approval == v1alpha1.GroupApprovalRequired
		groups = append(groups, group.Name)
	}
	if !gated {
		return nil
	}
	return groups
}

// isThere asks the API server whether an approval still exists.
func (c *Controller) isThere(ctx context.Context, a approval) (bool, error) {
	current := &v1alpha1.FleetApproval{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: a.name}, current)
	switch {
	case apierrors.IsNotFound(err), undecodable.Is(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the approval %s again: %w", a.name, err)
	}
	return current.UID == a.uid && current.DeletionTimestamp == nil, nil
}

// isApproved looks again, before the revision is started in a cluster, whether the approvals by which it may be are still there.
func (c *Controller) isApproved(ctx context.Context, s *scope, m *member) (bool, error) {
	in, cluster := s.planInput(true), s.plannedCluster(m)
	if !in.NeedsApproval(cluster) {
		return true, nil
	}
	in.Approvals = nil
	for _, a := range s.approvals {
		there, err := c.isThere(ctx, a)
		if err != nil {
			return false, err
		}
		if there {
			in.Approvals = append(in.Approvals, a.Approval)
		}
	}
	return in.AwaitedGroup(cluster) == "", nil
}
