package fleet

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestAGroupWaitsForTheApprovalOfEachRevision(t *testing.T) {
	f := newFixture(t, 3, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Groups = append(fleet.Spec.Groups, v1alpha1.MachineFleetGroup{
			Name: "rest", ClusterSelector: &metav1.LabelSelector{}, Approval: v1alpha1.GroupApprovalRequired,
		})
	}))
	approve := func(revision string) {
		f.update(func(fleet *v1alpha1.MachineFleet) {
			fleet.Spec.Approvals = []v1alpha1.MachineFleetApproval{{Group: "rest", Revision: revision}}
		})
		f.reconcile()
	}
	f.reconcile()
	f.says(false, 0)
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, -, -"))
	first := f.status().Revision
	progress := f.condition(v1alpha1.ProgressingCondition)
	f.Expect([]string{string(progress.Status), progress.Reason}).To(Equal([]string{"Unknown", v1alpha1.ReasonAwaitingApproval}))
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("waiting for approval: rest: add the group with revision " + first))
	f.Expect(f.fleet.Status.Conditions).NotTo(ContainElement(HaveField("Type", v1alpha1.StalledCondition)))
	approve(first)
	f.says(false, 1, 2)
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))

	f.upgrade("v1.37.0")
	f.reconcile()
	f.says(false, 0)
	f.reconcile()
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "the approval was for another template")
	approve(f.status().Revision)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))

	f.refresh().Spec.Approvals[0].Group = "none"
	f.Expect(f.direct.Update(t.Context(), f.fleet)).To(MatchError(ContainSubstring("spec.approvals: each names a group")))
}
