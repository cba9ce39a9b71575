package fleet

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A cluster that dies in the middle of a wave, and is taken out of the fleet or denied, holds no other.
// Claim: A cluster that left or was denied holds no other. Broken: its wave waits for it.
func TestAClusterThatLeftHoldsNoOther(t *testing.T) {
	for name, leave := range map[string]func(*env){
		"it has no label any more": func(f *env) { f.label(1, testLabel, "") },
		"it is denied": func(f *env) {
			f.cluster(1).Spec.Acceptance = v1alpha1.AcceptanceDenied
			f.ExpectApplied(f.clusters[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 4, both(inSteps(1, 0), withProduction))
			f.label(3, "group", "production")
			f.approve("production")
			f.settle()
			f.upgrade("v1.37.0")
			f.ExpectReconciled(f.fleet)
			f.says(false, 0)
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(HavePrefix("Succeeded v1.37.0, Progressing v1.37.0, "))
			f.freeze(1, true)
			leave(f)
			f.approve("production")
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(HavePrefix("Succeeded v1.37.0, Progressing held v1.37.0, Progressing v1.37.0"))
			f.says(false, 2)
			f.ExpectReconciled(f.fleet)
			f.says(false, 3)
			f.ExpectReconciled(f.fleet)
			status := f.status()
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonRolloutComplete), status.Message)
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue), status.Message)
			f.Expect([]int32{status.Clusters.Selected, status.Clusters.Updated, status.Clusters.Held}).To(Equal([]int32{3, 3, 0}))
		})
	}
}

// Nothing has proven the revision when the canary leaves in the middle of it.
func TestACanaryThatLeavesProvesNothing(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.label(0, testLabel, "")
	f.freeze(0, true)
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Progressing held v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("no cluster with Machines has proven the revision: canary: add a cluster to the group"))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.StalledCondition).Reason).To(Equal(v1alpha1.ReasonGroupUnproven))
	f.label(2, "group", "canary")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing held v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "it was promised to come after the canary")
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RetriedAt = &metav1.Time{Time: f.Clock.Now().Truncate(time.Second)}
	})
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing held v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"))
}

func TestACanaryWithoutMachinesProvesNothing(t *testing.T) {
	f := newEnv(t, 3, both(inSteps(2, time.Minute), func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Replicas = nil }))
	f.settle()
	f.edit(0, func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.after(time.Minute)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Message).To(ContainSubstring("no cluster with Machines has proven the revision: canary"))
	f.edit(0, func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(2)) })
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "its Machines are to prove it")
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.after(time.Minute)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
	f.edit(0, func(d *v1alpha1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	f.says(false, 0, 1, 2)
	f.ExpectReconciled(f.fleet)
	f.after(time.Minute)
	f.status()
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue), "what was proven stays so: "+f.fleet.Status.Message)
}

// Claim: A group that lost its clusters makes a fleet not Ready. Broken: as before: Ready True. Also: TestClustersThatLoseTheirGroupWaitForItsApproval.
// Claim: A mandatory group with no cluster or 0 replicas proves nothing. Broken: no proof is asked for. Also: TestACanaryWithoutMachinesProvesNothing, TestACanaryThatLeavesProvesNothing.
func TestAMandatoryGroupWithoutAClusterHolds(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, 0))
	f.settle()
	f.label(0, "group", "")
	f.status()
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition)).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonGroupWithoutCluster)), "at rest, too")
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.StalledCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.fleet.Status.Message).To(And(HavePrefix("spec.groups[canary]: it is mandatory and has no cluster"), ContainSubstring("correct its clusterSelector")))
	f.upgrade("v1.37.0")
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.status()
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.StalledCondition).Reason).To(Equal(v1alpha1.ReasonGroupUnproven))
	f.label(2, "group", "canary")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Progressing v1.37.0"))
}

// A label, or a group of a Placement, that has another name takes clusters out of the group that needs an approval.
// Claim: Clusters that lose their group wait for its approval. Broken: no group waits for those that are in none.
// Edge case: A decision group is renamed while a fleet rests.
func TestClustersThatLoseTheirGroupWaitForItsApproval(t *testing.T) {
	for name, lost := range map[string][]int{"all of them": {1, 2}, "one of them": {2}} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 3, both(inSteps(2, 0), withProduction))
			f.label(1, "group", "production")
			f.label(2, "group", "production")
			f.approve("production")
			f.settle()
			for _, i := range lost {
				f.label(i, "group", "prod")
			}
			f.status()
			if len(lost) == 2 {
				f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionFalse), "at rest")
				f.Expect(f.fleet.Status.Message).To(HavePrefix("spec.groups[production]: it has lost all its clusters"))
			}
			f.upgrade("v1.37.0")
			f.ExpectReconciled(f.fleet)
			f.says(false, 0)
			f.after(time.Hour)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
			f.status()
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingApproval), f.fleet.Status.Message)
			f.approve("production")
			f.ExpectReconciled(f.fleet)
			f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"))
		})
	}
}

// Clusters in no group may be meant for a group that needs an approval and has none, because of a typo in its selector or in a label: also
// those that were never started in it.
func TestClustersWithoutAGroupWaitForTheApprovalOfOneThatNeverHadAny(t *testing.T) {
	f := newEnv(t, 3, both(inSteps(2, 0), withProduction))
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, -, -"))
	f.status()
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingApproval), f.fleet.Status.Message)
	f.approve("production")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2, Progressing v1.36.2"))
}
