package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// bind gives a user a ClusterRole.
func (f *env) bind(user, role string) {
	f.T.Helper()
	f.ExpectApplied(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: testenv.Name()}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	})
}

// One user edits the fleet, another one approves, and neither can do what the other does.
func TestARolloutIsApprovedByAnotherUser(t *testing.T) {
	f := newFleetEnv(t)
	f.Expect(config.Apply(t.Context(), f.Client, config.RBAC, "rbac/users")).To(Succeed())
	alice, bob := "alice-"+f.name, "bob-"+f.name
	f.bind(alice, v1alpha1.ApproverRole)
	f.bind(bob, "hollowfleet-fleet-editor")
	f.settle()
	fleet := &v1alpha1.MachineFleet{}
	f.Expect(f.Client.Get(t.Context(), client.ObjectKey{Name: f.name}, fleet)).To(Succeed())
	fleet.Spec.Groups[0].Approval = v1alpha1.GroupApprovalRequired
	f.ExpectApplied(fleet)
	as := func(user string) []string { return []string{"--as", user, "--as-group", "system:authenticated"} }

	f.Eventually(func() int { return f.hollow("fleet list", as(alice)...).code }).WithTimeout(patience).Should(Equal(0), "the roles are in force")
	f.fails(4, "cannot patch", "upgrade fleet/NAME --kubelet v1.37.1", as(alice)...)
	f.succeeds("upgrade fleet/NAME --kubelet v1.37.1", as(bob)...)
	f.reconcile()
	f.fails(4, "ClusterRole hollowfleet-approver is missing; an administrator can grant it with: kubectl create clusterrolebinding NAME --clusterrole=hollowfleet-approver --user="+bob,
		"rollout approve machinefleet NAME --group canary", as(bob)...)
	f.Expect(f.hollow("fleet status NAME", as(bob)...).out).To(ContainSubstring("kubectl hollow rollout approve machinefleet " + f.name + " --group canary"))
	f.Expect(f.succeeds("rollout approve machinefleet NAME", as(alice)...)).To(ContainSubstring(", by " + alice))
	f.settle()
	f.Expect(f.succeeds("rollout history fleet/NAME --revision 2")).To(And(
		ContainSubstring("Approved: group canary, by "+alice), ContainSubstring("the admission policy was not installed")))
	f.Expect(f.succeeds("rollout status fleet/NAME")).To(ContainSubstring("2 of 2 clusters updated"))
}
