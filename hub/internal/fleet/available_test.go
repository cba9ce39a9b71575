package fleet

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// Clusters that a first rollout has not reached have nothing that could be unavailable, and say so by a reason of their own; a
// MachineDeployment that is there and not available is told whatever else waits.
// Claim: A first rollout that waits for approval is waiting, not a problem. Broken: clusters without a MachineDeployment count as unavailable, as before. Also: hub/cli/health TestJudgement; hub/cli TestStatusOfAFirstRolloutThatWaitsForApproval.
func TestClustersThatTheRolloutHasNotReachedAreNotUnavailable(t *testing.T) {
	f := newEnv(t, 3, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Groups = append(fleet.Spec.Groups, v1alpha1.MachineFleetGroup{
			Name: "rest", ClusterSelector: &metav1.LabelSelector{}, Approval: v1alpha1.GroupApprovalRequired,
		})
	}))
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.status()
	available := f.ReadCondition(f.fleet, v1alpha1.AvailableCondition)
	f.Expect(available).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonAwaitingRollout)))
	f.Expect(available.Message).To(And(ContainSubstring(f.cluster(1).Name), ContainSubstring(f.cluster(2).Name), Not(ContainSubstring(f.cluster(0).Name))))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition)).To(HaveField("Reason", v1alpha1.ReasonAwaitingApproval))

	deployment := f.deployment(0)
	f.ExpectConditionApplied(deployment, v1alpha1.AvailableCondition, metav1.ConditionFalse, v1alpha1.ReasonMinimumReplicasUnavailable)
	f.ExpectReconciled(f.fleet)
	f.status()
	available = f.ReadCondition(f.fleet, v1alpha1.AvailableCondition)
	f.Expect(available).To(HaveField("Reason", v1alpha1.ReasonMinimumReplicasUnavailable))
	f.Expect(available.Message).To(And(ContainSubstring(f.cluster(0).Name), Not(ContainSubstring(f.cluster(1).Name))))
}
