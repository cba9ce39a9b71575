package tenancy

import (
	"context"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Users with one of the roles that the hub brings for people.
const (
	approverName, editorName = "approver", "editor"
	editorRole               = "hollowfleet-fleet-editor"
)

// gatedFleet has a group that needs an approval.
func gatedFleet() *v1alpha1.MachineFleet {
	gated := machineFleet("gated")
	gated.Spec.Groups = []v1alpha1.MachineFleetGroup{
		{Name: "canary", ClusterSelector: nowhere()}, {Name: "production", ClusterSelector: nowhere(), Approval: v1alpha1.GroupApprovalRequired},
	}
	return gated
}

// approval is given in the name of a user.
func approval(name, by string) *v1alpha1.FleetApproval {
	return &v1alpha1.FleetApproval{ObjectMeta: named(name), Spec: v1alpha1.FleetApprovalSpec{
		Fleet: "gated", FleetUID: "0", Revision: "0123456789", Rollout: 1, Group: "production", Approver: by,
	}}
}

// withHubRole binds a role of the hub's to the user of its name.
func withHubRole(user, role string, act do) do {
	return func(ctx context.Context, c client.WithWatch) error {
		hub.create(ctx, gatedFleet())
		hub.create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: named("tried:" + user), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
		Eventually(ctx, func(ctx context.Context) error { return c.List(ctx, &v1alpha1.FleetApprovalList{}) }).Should(Succeed(), "the role counts")
		return act(ctx, c)
	}
}

// approvalChapters are about who opens the gates of a fleet.
func approvalChapters() []chapter {
	return []chapter{
		{"Approvals: approvers", "A user with ClusterRole `hollowfleet-approver`, who opens the gates of fleets and changes nothing of them.", as(approverName), approversAtWork()},
		{"Approvals: editors of fleets", "A user with ClusterRole `hollowfleet-fleet-editor`, who changes fleets and opens no gate.", as(editorName), editorsAtWork()},
	}
}

func approversAtWork() []attempt {
	asApprover := func(act do) do { return withHubRole(approverName, v1alpha1.ApproverRole, act) }
	fleet, own := gatedFleet(), pool(clusterA, "of-the-approver")
	return []attempt{
		{"approve a group in their own name, and take it back", allowed, "", asApprover(each(
			create(approval("given", approverName)), remove(approval("given", approverName))))},
		{"approve in the name of another user", policy, "is not you", asApprover(create(approval("forged", editorName)))},
		{"change an approval", rbac, "cannot patch", asApprover(made(approval("kept", "admin"), merge(approval("kept", "admin"), `{"spec":{"group":"canary"}}`)))},
		{"change the template of a fleet", rbac, "cannot patch", asApprover(merge(fleet, `{"spec":{"paused":true}}`))},
		{"delete a fleet", rbac, "cannot delete", asApprover(remove(fleet))},
		{"create a fleet", rbac, "cannot create", asApprover(create(machineFleet("by-approver")))},
		{"write the status of a fleet", rbac, "cannot patch", asApprover(mergeStatus(fleet, `{"status":{"revision":"x"}}`))},
		{"change a MachineDeployment that a fleet has made", rbac, "cannot patch", asApprover(made(own, merge(own, `{"spec":{"replicas":9}}`)))},
	}
}

func editorsAtWork() []attempt {
	asEditor := func(act do) do { return withHubRole(editorName, editorRole, act) }
	fleet := gatedFleet()
	const gate = "only a user with the verb approve"
	return []attempt{
		{"pause a fleet", allowed, "", asEditor(merge(fleet, `{"spec":{"paused":true}}`))},
		{"approve a group in their own name", rbac, "cannot create", asEditor(create(approval("own", editorName)))},
		{"take an approval back", rbac, "cannot delete", asEditor(made(approval("kept", "admin"), remove(approval("kept", "admin"))))},
		{"take the need of an approval from a group", policy, gate, asEditor(update(fleet, func(f *v1alpha1.MachineFleet) {
			f.Spec.Groups[1].Approval = v1alpha1.GroupApprovalNotRequired
		}))},
		{"remove a group that needs an approval", policy, gate, asEditor(update(fleet, func(f *v1alpha1.MachineFleet) { f.Spec.Groups = f.Spec.Groups[:1] }))},
		{"put a group before one that needs an approval, to take its clusters", policy, gate, asEditor(update(fleet, func(f *v1alpha1.MachineFleet) {
			f.Spec.Groups = append([]v1alpha1.MachineFleetGroup{{Name: "first", ClusterSelector: nowhere()}}, f.Spec.Groups...)
		}))},
		{"delete a fleet, to create it without the gate", rbac, "cannot delete", asEditor(remove(fleet))},
		{"create a fleet", rbac, "cannot create", asEditor(create(machineFleet("by-editor-of-fleets")))},
		{"write the status of a fleet", rbac, "cannot patch", asEditor(mergeStatus(fleet, `{"status":{"revision":"x"}}`))},
	}
}
