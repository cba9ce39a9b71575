package fleet

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// mostApproved is how many approvals the record of a rollout has.
const mostApproved = 256

// noteApprovals records who has approved the groups that need it, and who took that back.
func (c *Controller) noteApprovals(ctx context.Context, s *rollout.Scope, r *stored) {
	for _, a := range s.Approvals {
		known := slices.ContainsFunc(r.Approvals, func(old rollout.Approved) bool { return old.Approval == a.Name })
		if known || len(r.Approvals) >= mostApproved || !s.NeedsApproval(a.Group) {
			continue
		}
		r.Approvals = append(r.Approvals, rollout.Approved{
			Group: a.Group, By: a.By, At: rollout.FormatTime(a.Created), Approval: a.Name, Rollout: a.Rollout, Claimed: !c.isApproverChecked(ctx, a),
		})
		r.dirty, r.urgent = true, true
	}
	gated := s.GatedGroups()
	for i := range r.Approvals {
		old := &r.Approvals[i]
		if !slices.Contains(gated, old.Group) {
			continue
		}
		there := slices.ContainsFunc(s.Approvals, func(a rollout.Approval) bool { return a.Name == old.Approval })
		if old.Approval != "" && old.Rollout == s.Rollout && old.TakenBack == "" && !there {
			old.TakenBack, r.dirty = rollout.FormatTime(s.Now), true
		}
	}
}

// isApproverChecked reports whether the admission policy was in force when an approval was given: it holds the approver's name to that of
// the user. A policy that was created later proves nothing.
func (c *Controller) isApproverChecked(ctx context.Context, a rollout.Approval) bool {
	for _, object := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}} {
		err := c.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ApprovalPolicy}, object)
		if err != nil || object.GetCreationTimestamp().After(a.Created) {
			return false
		}
	}
	return true
}
