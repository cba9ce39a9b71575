package fleet

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// mostApproved is how many approvals the record of a rollout has.
const mostApproved = 256

// Approved is the approval of a group.
type Approved struct {
	Group string `json:"group"`
	// By is the name of the user who gave it.
	By string `json:"by"`
	// At is when it was given.
	At string `json:"at"`
	// Approval is the name of the FleetApproval; empty in the record of an older hub.
	Approval string `json:"approval,omitempty"`
	// Rollout is the number of the rollout that was approved.
	Rollout int64 `json:"rollout,omitempty"`
	// Claimed: the API server did not check the name of the user, because the admission policy was not there when the approval was given.
	Claimed bool `json:"claimed,omitempty"`
	// TakenBack is when the approval was found deleted; empty while it is there, or was when the rollout ended.
	TakenBack string `json:"takenBack,omitempty"`
}

// noteApprovals records who has approved the groups that need it, and who took that back.
func (c *Controller) noteApprovals(ctx context.Context, s *scope, r *stored) {
	for _, a := range s.approvals {
		known := slices.ContainsFunc(r.Approvals, func(old Approved) bool { return old.Approval == a.name })
		if known || len(r.Approvals) >= mostApproved || !s.needsApproval(a.Group) {
			continue
		}
		r.Approvals = append(r.Approvals, Approved{
			Group: a.Group, By: a.by, At: formatTime(a.created), Approval: a.name, Rollout: a.Rollout, Claimed: !c.isApproverChecked(ctx, a),
		})
		r.dirty, r.urgent = true, true
	}
	gated := s.gatedGroups()
	for i := range r.Approvals {
		old := &r.Approvals[i]
		if !slices.Contains(gated, old.Group) {
			continue
		}
		there := slices.ContainsFunc(s.approvals, func(a approval) bool { return a.name == old.Approval })
		if old.Approval != "" && old.Rollout == s.rollout && old.TakenBack == "" && !there {
			old.TakenBack, r.dirty = formatTime(s.now), true
		}
	}
}

// needsApproval reports whether a group needs an approval, or did when the rollout started, or may be the name that such a group has now.
func (s *scope) needsApproval(group string) bool {
	required := func(name string) bool {
		return slices.ContainsFunc(s.fleet.Spec.Groups, func(g v1alpha1.MachineFleetGroup) bool {
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

// isApproverChecked reports whether the admission policy was in force when an approval was given: it holds the approver's name to that of
// the user. A policy that was created later proves nothing.
func (c *Controller) isApproverChecked(ctx context.Context, a approval) bool {
	for _, object := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}} {
		err := c.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ApprovalPolicy}, object)
		if err != nil || object.GetCreationTimestamp().After(a.created) {
			return false
		}
	}
	return true
}
