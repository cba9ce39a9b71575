package fleet

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

func (f *env) rollouts() []rollout.Rollout {
	f.T.Helper()
	all, err := rollout.Rollouts(f.T.Context(), f.Client, f.refresh())
	f.Expect(err).NotTo(HaveOccurred())
	return all
}

// What happened to a rollout in each cluster can be read when the clusters have another revision, have left, or are gone.
// Claim: A rollout's record outlives health, revisions and departures. Broken: it is not written before the next revision starts there; a record is never superseded; approvals are left out. Also: TestARecordIsWrittenBeforeItsClusterIsOverwritten, TestARevisionThatIsStartedAgainHasAnotherRecord, TestARecordIsBounded; hub/cli TestHistoryShowsWhatBecameOfARollout.
func TestARolloutLeavesARecord(t *testing.T) {
	f := newEnv(t, 3, both(inSteps(1, 0), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RollbackPolicy = v1alpha1.RollbackAll
		fleet.Spec.Groups = append(fleet.Spec.Groups, v1alpha1.MachineFleetGroup{
			Name: "rest", ClusterSelector: &metav1.LabelSelector{}, Approval: v1alpha1.GroupApprovalRequired,
		})
	}))
	approve := func() { f.approve("rest") }
	approve()
	f.settle()
	f.status()
	first := f.rollouts()
	f.Expect(first).To(HaveLen(1))
	f.Expect(first[0].Clusters).To(HaveLen(3))
	f.Expect(first[0].Approvals).To(ConsistOf(And(HaveField("By", "alice"), HaveField("Group", "rest"), HaveField("At", Not(BeEmpty())), HaveField("Claimed", true))))
	for name, cluster := range first[0].Clusters {
		f.Expect(cluster.Phase).To(Equal(plan.Succeeded), name)
		f.Expect([]string{cluster.Started, cluster.Since}).NotTo(ContainElement(BeEmpty()), name)
	}

	f.upgrade("v1.37.0")
	approve()
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.restart()
	f.says(true, 1)
	f.ExpectReconciled(f.fleet)
	f.status()
	for range 4 {
		f.says(false, 0, 1)
		f.status()
	}
	f.label(1, testLabel, "")
	f.ExpectDeleted(f.deployment(1))
	f.status()
	f.update(func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.37.1"
	})
	approve()
	f.restart()
	f.settle()
	f.status()

	all := f.rollouts()
	f.Expect(all).To(HaveLen(3))
	f.Expect(all[1].Number).To(BeEquivalentTo(2))
	f.Expect(all[1].Superseded).NotTo(BeEmpty())
	failed := all[1].Clusters[f.clusters[1].Name]
	f.Expect(failed.Phase).To(Equal(plan.RolledBack))
	f.Expect(failed.Failure).To(ContainSubstring("0 of 3 machines"))
	f.Expect(failed.Left).NotTo(BeEmpty(), "it has left, and its MachineDeployment is gone")
	f.Expect(all[1].Clusters[f.clusters[0].Name].Phase).To(Equal(plan.RolledBack))
	f.Expect(all[1].Clusters).NotTo(HaveKey(f.clusters[2].Name), "it was not started there")
	f.Expect(all[1].Turns).To(ContainElement(And(
		HaveField("Reason", v1alpha1.ReasonRollingBack), HaveField("Message", ContainSubstring(f.clusters[1].Name)), HaveField("Message", ContainSubstring("0 of 3 machines")))))
	f.Expect(all[2].Superseded).To(BeEmpty())
	f.Expect(all[2].Clusters).To(HaveLen(2))

	// The templates are not disturbed by it.
	templates, err := rollout.Templates(t.Context(), f.Client, f.fleet)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(templates).To(HaveLen(3))
}

// What happened to a revision in a cluster is written before the next one takes its place there, also by a hub that knows it from the cluster
// alone.
func TestARecordIsWrittenBeforeItsClusterIsOverwritten(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(true, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.rollouts()[1].Clusters[f.clusters[0].Name].Failure).To(BeEmpty(), "it waits for more news")
	f.upgrade("v1.37.1")
	f.restart()
	f.ExpectReconciled(f.fleet)
	f.status()
	before := f.rollouts()[1]
	f.Expect(before.Clusters[f.clusters[0].Name]).To(And(HaveField("Phase", plan.Failed), HaveField("Failure", ContainSubstring("0 of 3 machines"))))
	f.Expect(before.Clusters[f.clusters[1].Name].Phase).To(Equal(plan.Progressing))
}

// A revision that is started again has a record of its own.
func TestARevisionThatIsStartedAgainHasAnotherRecord(t *testing.T) {
	f := newEnv(t, 1, nil)
	for i := range 2 * mostRollouts {
		f.upgrade([]string{"v1.37.0", "v1.37.1"}[i%2])
		f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.AllowDowngrade = true })
		f.settle()
	}
	f.status()
	all := f.rollouts()
	f.Expect(all).To(HaveLen(mostRollouts), "the oldest are removed")
	for i := 1; i < len(all); i++ {
		f.Expect(all[i].Revision).NotTo(Equal(all[i-1].Revision))
		f.Expect(all[i].Number).To(BeNumerically(">", all[i-1].Number))
	}
}

// A record that would be too large for an object keeps what needs a person, and counts the rest.
func TestARecordIsBounded(t *testing.T) {
	g := NewWithT(t)
	r := &stored{Rollout: rollout.Rollout{Clusters: map[string]rollout.ClusterRollout{}}}
	for i := range 10_000 {
		r.Clusters[fmt.Sprintf("cluster-%d", i)] = rollout.ClusterRollout{Group: "production", Started: "2026-01-01T00:00:00Z", Phase: plan.Succeeded, Since: "2026-01-01T00:00:00Z"}
	}
	for i := range 10 {
		r.Clusters[fmt.Sprintf("failed-%d", i)] = rollout.ClusterRollout{Phase: plan.Failed, Failure: "why"}
	}
	text, err := r.recordText()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(text)).To(And(BeNumerically("<", largestRollout), BeNumerically(">", largestRollout/2)))
	g.Expect(text).To(And(ContainSubstring("failed-9"), ContainSubstring(`"omitted":`)))
	g.Expect(r.Clusters).To(HaveLen(10_010), "what is known is not forgotten by the hub")
}

// A fleet at rest writes no record.
func TestAFleetAtRestWritesNoRecord(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.settle()
	f.status()
	f.restart()
	f.Writes.Counts()
	for range 3 {
		f.status()
	}
	f.Expect(f.Writes.Counts()).To(BeEmpty())
}
