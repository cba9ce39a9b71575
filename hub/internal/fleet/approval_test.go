package fleet

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// approvalOf is what alice creates to let the current rollout be applied to a group.
func (f *env) approvalOf(group string) *v1alpha1.FleetApproval {
	f.T.Helper()
	revision, err := rollout.Revision(f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	return &v1alpha1.FleetApproval{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "approval-"},
		Spec: v1alpha1.FleetApprovalSpec{
			Fleet: f.fleet.Name, FleetUID: string(f.fleet.UID), Group: group, Revision: revision, Rollout: rollout.NumberOf(f.fleet, revision), Approver: "alice",
		},
	}
}

// approve takes all approvals of the fleet back, and approves the current rollout for groups.
func (f *env) approve(groups ...string) {
	f.T.Helper()
	list := &v1alpha1.FleetApprovalList{}
	// An API server may take a moment to know the selectable fields of a kind that was just installed.
	f.Eventually(func() error {
		return f.Client.List(f.T.Context(), list, client.MatchingFields{rollout.ApprovalFleet: string(f.fleet.UID)})
	}).WithTimeout(time.Minute).Should(Succeed())
	for i := range list.Items {
		f.ExpectDeleted(&list.Items[i])
	}
	for _, group := range groups {
		f.ExpectApplied(f.approvalOf(group))
	}
}

func TestAGroupWaitsForTheApprovalOfEachRevision(t *testing.T) {
	f := newEnv(t, 3, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Groups = append(fleet.Spec.Groups, v1alpha1.MachineFleetGroup{
			Name: "rest", ClusterSelector: &metav1.LabelSelector{}, Approval: v1alpha1.GroupApprovalRequired,
		})
	}))
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, -, -"))
	f.status()
	progress := f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition)
	f.Expect([]string{string(progress.Status), progress.Reason}).To(Equal([]string{"Unknown", v1alpha1.ReasonAwaitingApproval}))
	f.Expect(f.fleet.Status.Message).To(ContainSubstring(fmt.Sprintf(
		"waiting for approval: rest: kubectl hollow rollout approve machinefleet %s --group rest", f.fleet.Name)))
	f.Expect(f.fleet.Status.AwaitingApproval).To(Equal([]string{"rest"}))
	f.Expect(f.fleet.Status.Conditions).NotTo(ContainElement(HaveField("Type", v1alpha1.StalledCondition)))
	f.approve("rest")
	f.ExpectReconciled(f.fleet)
	f.says(false, 1, 2)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().AwaitingApproval).To(BeEmpty())

	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "the approval was for other templates")
	f.status()
	f.approve("rest")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
}

// An approval counts for exactly the fleet, the templates, the rollout and the group that it names.
// Claim: An approval counts for one fleet, revision, rollout and group, while it exists. Broken: the number of the rollout, or the UID of the fleet, is not compared; approvals are not read again. Also: TestAnApprovalCountsForOneRollout, TestAnApprovalOutlivesOtherEdits, TestAnApprovalIsTakenBackBetweenTwoWrites, TestAnApprovalThatCannotBeDecodedOpensNothing; hub/internal/fleet/plan TestNoEditOpensAGate.
func TestAnApprovalOfSomethingElseOpensNothing(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.FleetApproval){
		"another fleet of the name": func(a *v1alpha1.FleetApproval) { a.Spec.FleetUID = "00000000-0000-0000-0000-000000000000" },
		"another name":              func(a *v1alpha1.FleetApproval) { a.Spec.Fleet = "another" },
		"other templates":           func(a *v1alpha1.FleetApproval) { a.Spec.Revision = "0123456789" },
		"an earlier rollout":        func(a *v1alpha1.FleetApproval) { a.Spec.Rollout-- },
		"a later rollout":           func(a *v1alpha1.FleetApproval) { a.Spec.Rollout++ },
		"another group":             func(a *v1alpha1.FleetApproval) { a.Spec.Group = "canary" },
		"a group that there is not": func(a *v1alpha1.FleetApproval) { a.Spec.Group = "Production" },
	} {
		t.Run(name, func(t *testing.T) {
			f := waitForApproval(t)
			f.status()
			wrong := f.approvalOf("production")
			change(wrong)
			f.ExpectApplied(wrong)
			f.restart()
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
			f.ExpectApplied(f.approvalOf("production"))
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
			f.Expect(f.rollouts()[1].Approvals).To(ConsistOf(HaveField("Group", "production")), "what opens no gate is not in the record")
		})
	}
}

// The same templates after others, and after a retry, are another rollout: what was approved before does not count for it.
// Edge case: Approvals counted again.
func TestAnApprovalCountsForOneRollout(t *testing.T) {
	for name, again := range map[string]func(*env){
		"gone back to": func(f *env) {
			f.upgrade("v1.37.1")
			f.ExpectReconciled(f.fleet)
			f.says(false, 0)
			f.status()
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AllowDowngrade = true })
			f.upgrade("v1.37.0")
		},
		"gone back to, when the status was lost": func(f *env) {
			f.upgrade("v1.37.1")
			f.ExpectReconciled(f.fleet)
			f.says(false, 0)
			f.status()
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AllowDowngrade = true })
			f.refresh().Status = v1alpha1.MachineFleetStatus{}
			f.ExpectStatusApplied(f.fleet)
			f.upgrade("v1.37.0")
		},
		"a retry": func(f *env) {
			f.update(func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.RetriedAt = &metav1.Time{Time: f.Clock.Now()}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := waitForApproval(t)
			f.status()
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused = true })
			f.approve("production")
			f.status()
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused = false })
			again(f)
			f.ExpectReconciled(f.fleet)
			f.says(false, 0)
			f.restart()
			f.ExpectReconciled(f.fleet)
			f.status()
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingApproval), f.fleet.Status.Message)
			f.approve("production")
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
		})
	}
}

// Other edits of the spec, and a hub that is started again, need no other approval.
func TestAnApprovalOutlivesOtherEdits(t *testing.T) {
	f := waitForApproval(t)
	f.status()
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused = true })
	f.ExpectReconciled(f.fleet)
	f.approve("production")
	f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused, fleet.Spec.Replicas = false, new(int32(4)) })
	f.restart()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
}
