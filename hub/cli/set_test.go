package cli_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The commands for rollouts work on the control planes of a SimulatedClusterSet as they do on a MachineFleet.
func TestARolloutOfASet(t *testing.T) {
	f := newEnv(t)
	set := &v1alpha1.SimulatedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	set.Spec.Rollout.Groups = []v1alpha1.MachineFleetGroup{{Name: "production", ClusterSelector: &metav1.LabelSelector{}, Approval: v1alpha1.GroupApprovalRequired}}
	f.ExpectApplied(set)
	says := func(reason, message string, counts v1alpha1.MachineFleetClusters) {
		t.Helper()
		f.ExpectExists(set)
		set.Status.ObservedGeneration = set.Generation
		set.Status.Rollout = v1alpha1.SimulatedClusterSetRolloutStatus{Revision: "v1.37", Rollout: 2, CurrentWave: 1, Waves: 1, Clusters: counts, AwaitingApproval: []string{"production"}}
		meta.SetStatusCondition(&set.Status.Conditions, metav1.Condition{Type: v1alpha1.ProgressingCondition, Status: metav1.ConditionUnknown, Reason: reason, Message: message})
		f.ExpectStatusApplied(set)
	}
	f.Expect(f.succeeds("rollout status simulatedclusterset NAME --watch=false")).To(ContainSubstring("waiting for the hub to observe"))
	says(v1alpha1.ReasonAwaitingApproval, "waiting for approval", v1alpha1.MachineFleetClusters{Selected: 3, Waiting: 3})
	f.Expect(f.succeeds("rollout status simcs/NAME --watch=false")).To(ContainSubstring("waits (AwaitingApproval), 0 of 3 clusters have v1.37: waiting for approval"))
	f.Expect(f.succeeds("rollout approve simulatedclusterset NAME")).To(ContainSubstring("group production is approved for v1.37 (rollout 2), by "))
	list := &v1alpha1.FleetApprovalList{}
	f.Expect(f.Client.List(t.Context(), list)).To(Succeed())
	f.Expect(list.Items).To(ContainElement(HaveField("Spec", And(
		HaveField("Kind", v1alpha1.ApprovedSet), HaveField("FleetUID", string(set.UID)), HaveField("Revision", "v1.37"), HaveField("Rollout", int64(2)), HaveField("Group", "production")))))
	f.Expect(f.succeeds("rollout approve simulatedclusterset NAME")).To(ContainSubstring("has no group that is waiting for approval"))
	f.Expect(f.succeeds("rollout pause simulatedclusterset NAME")).To(ContainSubstring("paused"))
	f.ExpectExists(set)
	f.Expect(set.Spec.Rollout.Paused).To(BeTrue())
	says(v1alpha1.ReasonPaused, "", v1alpha1.MachineFleetClusters{Selected: 3, Waiting: 3})
	f.stops(4, "rollout resume simulatedclusterset", "rollout status simulatedclusterset NAME")
	f.succeeds("rollout resume simulatedclusterset NAME")
	says(v1alpha1.ReasonTooManyFailures, "failed: sim-0", v1alpha1.MachineFleetClusters{Selected: 3, Waiting: 2, Failed: 1})
	f.stops(5, "has stopped: failed: sim-0", "rollout status simulatedclusterset NAME")
	f.Expect(f.succeeds("rollout retry simulatedclusterset NAME")).To(ContainSubstring("v1.37 starts again in 1 cluster that failed; 2 are waiting"))
	f.ExpectExists(set)
	f.Expect(set.Spec.Rollout.RetriedAt).NotTo(BeNil())
	says(v1alpha1.ReasonRolloutComplete, "", v1alpha1.MachineFleetClusters{Selected: 3, Updated: 3})
	f.fails(4, "every cluster has v1.37", "rollout retry simulatedclusterset NAME")
	f.Expect(f.hollow("rollout status simulatedclusterset NAME --watch=false").out).To(ContainSubstring("has rolled out: 3 of 3 clusters have v1.37"))
}
