package admission_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// newGatedSet makes a set that has the name of the fleet, and a group that needs an approval.
func (a *approvers) newGatedSet() *v1alpha1.SimulatedClusterSet {
	a.t.Helper()
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: a.fleet.Name}}
	set.Spec.Template.Spec.ClusterMetadata.Labels = map[string]string{"stage": "production"}
	set.Spec.Rollout.Groups = []v1alpha1.MachineFleetGroup{
		{Name: "canary", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}},
		{Name: "production", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "production"}}, Approval: v1alpha1.GroupApprovalRequired},
	}
	a.create(testenv.Server().Client, set)
	return set
}

// Claim: Who may approve a MachineFleet may not approve the SimulatedClusterSet of its name. Broken: the kind not asked for.
func TestAnApproverOfAFleetApprovesNoSet(t *testing.T) {
	a := newApprovers(t)
	set := a.newGatedSet()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: uniqueName()}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"fleetapprovals"}, Verbs: []string{"create"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"machinefleets"}, Verbs: []string{"approve"}, ResourceNames: []string{a.fleet.Name}},
	}}
	a.create(testenv.Server().Client, role)
	carol, alice := a.user("carol", role.Name), a.user("alice", v1alpha1.ApproverRole)
	approval := func(by string) *v1alpha1.FleetApproval {
		given := a.approval(by)
		given.Spec.Kind, given.Spec.FleetUID = v1alpha1.ApprovedSet, string(set.UID)
		return given
	}
	a.Eventually(func() error { return carol.Create(t.Context(), a.approval("carol"), client.DryRunAll) }).WithTimeout(time.Minute).Should(Succeed())
	a.Expect(carol.Create(t.Context(), approval("carol"), client.DryRunAll)).To(And(refused, MatchError(ContainSubstring(`"carol" may not approve SimulatedClusterSet `+set.Name))))
	a.Expect(alice.Create(t.Context(), approval("alice"), client.DryRunAll)).To(Succeed())
}

// Claim: Who edits a set takes no gate away. Broken: without the policy; the labels not compared.
func TestAnEditorWeakensNoGateOfASet(t *testing.T) {
	a := newApprovers(t)
	set := a.newGatedSet()
	bob, both := a.user("bob", "hollowfleet-simulation-editor"), a.user("both", "hollowfleet-simulation-editor", v1alpha1.ApproverRole)
	edit := func(by client.Client, change func(*v1alpha1.SimulatedClusterSetSpec)) error {
		changed := &v1alpha1.SimulatedClusterSet{}
		a.Expect(testenv.Server().Client.Get(t.Context(), client.ObjectKeyFromObject(set), changed)).To(Succeed())
		change(&changed.Spec)
		return by.Update(t.Context(), changed, client.DryRunAll)
	}
	for name, change := range map[string]func(*v1alpha1.SimulatedClusterSetSpec){
		"needs no approval": func(s *v1alpha1.SimulatedClusterSetSpec) {
			s.Rollout.Groups[1].Approval = v1alpha1.GroupApprovalNotRequired
		},
		"no groups":  func(s *v1alpha1.SimulatedClusterSetSpec) { s.Rollout.Groups = nil },
		"no rollout": func(s *v1alpha1.SimulatedClusterSetSpec) { s.Rollout = v1alpha1.SimulatedClusterSetRollout{} },
		"other clusters": func(s *v1alpha1.SimulatedClusterSetSpec) {
			s.Rollout.Groups[1].ClusterSelector.MatchLabels["stage"] = "none"
		},
		"taken by the one before": func(s *v1alpha1.SimulatedClusterSetSpec) {
			s.Rollout.Groups[0].ClusterSelector = &metav1.LabelSelector{}
		},
		"other labels": func(s *v1alpha1.SimulatedClusterSetSpec) {
			s.Template.Spec.ClusterMetadata.Labels = map[string]string{"stage": "none"}
		},
		"no labels": func(s *v1alpha1.SimulatedClusterSetSpec) { s.Template.Spec.ClusterMetadata.Labels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Eventually(func() error { return edit(bob, change) }).WithTimeout(time.Minute).Should(And(refused, MatchError(ContainSubstring("only a user with the verb approve"))))
			g.Expect(edit(both, change)).To(Succeed())
		})
	}
	a.Expect(edit(bob, func(s *v1alpha1.SimulatedClusterSetSpec) {
		s.Template.Spec.Versions.ControlPlane, s.Rollout.Paused = "v1.37", true
	})).To(Succeed())
	a.Expect(bob.Delete(t.Context(), set.DeepCopy(), client.DryRunAll)).To(And(refused, MatchError(ContainSubstring("may delete it"))))
}
