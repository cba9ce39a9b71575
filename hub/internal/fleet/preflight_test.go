package fleet

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

func TestAllProblemsOfAClusterAreNamed(t *testing.T) {
	f := newEnv(t, 2, func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
	})
	cluster := f.cluster(1)
	cluster.Status.KubernetesVersion = "v1.36.0"
	f.ExpectStatusApplied(cluster)
	foreign, err := rollout.NewApplied(f.fleet, &f.fleet.Spec.Template, cluster.Name, new(int32(1))).NewDeployment(f.fleet.Name, &rollout.Record{})
	f.Expect(err).NotTo(HaveOccurred())
	delete(foreign.Annotations, v1alpha1.FleetRecordAnnotation)
	f.ExpectApplied(foreign)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, foreign"))
	status := f.status()
	f.Expect(status.Failures).To(HaveLen(1))
	f.Expect(status.Failures[0].Message).To(And(ContainSubstring("set spec.adopt"), ContainSubstring("upgrade the cluster's API server")))
	f.Expect(status.Clusters.Blocked).To(BeEquivalentTo(1))
	preview, err := rollout.NewPreview(t.Context(), f.Client, f.fleet, f.Clock.Now())
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(preview.Members[1].Problems()).To(ConsistOf(ContainSubstring("set spec.adopt"), ContainSubstring("upgrade the cluster's API server")))
}

// reports lets the agent of a cluster say something in its status.
func (f *env) reports(i int, change func(*v1alpha1.ClusterStatus)) {
	f.T.Helper()
	cluster := f.cluster(i)
	change(&cluster.Status)
	f.ExpectStatusApplied(cluster)
}

// sets lets the agent of a cluster, or another controller, write a condition.
func (f *env) sets(i int, kind string, status metav1.ConditionStatus, message string) {
	f.T.Helper()
	f.reports(i, func(s *v1alpha1.ClusterStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Tested", Message: message})
	})
}

// Claim: Nothing starts where a budget or quota forbids; others proceed. Broken: the surge is left out; the condition is not read; its changes wake no fleet. Also: TestARolloutNeedsRoomForItsPods, TestChangesOfWhatIsCheckedWakeFleets.
func TestNothingIsBegunWhereABudgetAllowsNoDisruption(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, 0))
	f.settle()
	const budget = "PodDisruptionBudget shop/web allows no disruption at all (maxUnavailable: 0)"
	f.sets(1, v1alpha1.ClusterDisruptionAllowedCondition, metav1.ConditionFalse, budget)
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"), "the others continue")
	status := f.status()
	f.Expect(status.Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[1].Name), HaveField("Reason", string(v1alpha1.PreflightDisruptionNotAllowed)),
		HaveField("Message", budget+": change the budget, give its pods more replicas, or add DisruptionNotAllowed to spec.ignorePreflightErrors"))))
	f.says(false, 2)
	f.ExpectReconciled(f.fleet)
	f.status()
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonClustersBlocked))

	f.sets(1, v1alpha1.ClusterDisruptionAllowedCondition, metav1.ConditionTrue, "")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.37.0"), "it starts by itself")
	f.sets(1, v1alpha1.ClusterDisruptionAllowedCondition, metav1.ConditionFalse, budget)
	f.says(false, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(ContainSubstring("Succeeded v1.37.0, Succeeded v1.37.0"), "what has started is not held up")
}

func TestABudgetCanBeIgnored(t *testing.T) {
	f := newEnv(t, 1, func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.IgnorePreflightErrors = []v1alpha1.PreflightError{v1alpha1.PreflightDisruptionNotAllowed}
	})
	f.settle()
	f.sets(0, v1alpha1.ClusterDisruptionAllowedCondition, metav1.ConditionFalse, "no disruption")
	f.reports(0, func(s *v1alpha1.ClusterStatus) {
		s.PodQuota = &v1alpha1.PodQuota{Namespace: "hollowfleet", Name: "small"}
	})
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2"), "the quota is not ignored")
	f.Expect(f.status().Failures).To(ConsistOf(HaveField("Message", Not(ContainSubstring("disruption")))))
	f.reports(0, func(s *v1alpha1.ClusterStatus) { s.PodQuota = nil })
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0"))
}

func TestARolloutNeedsRoomForItsPods(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.settle()
	f.reports(1, func(s *v1alpha1.ClusterStatus) {
		s.PodQuota = &v1alpha1.PodQuota{Namespace: "hollowfleet", Name: "small"}
	})
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2"))
	f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Reason", string(v1alpha1.PreflightPodQuotaExceeded)), HaveField("Message",
		ContainSubstring("ResourceQuota hollowfleet/small leaves room for 0 more hollow-node pods, and the rollout needs 1 at once")))))
	f.reports(1, func(s *v1alpha1.ClusterStatus) { s.PodQuota.Remaining = 1 })
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Progressing v1.37.0"), "it starts by itself")
}

// What an agent reported before it fell silent is no health and no problem: the cluster is held for its silence.
// Claim: Reports from before a freeze do not count. Broken: held clusters are checked; a frozen agent keeps reading. Also: agent/internal/checks TestNothingIsReadWhileFrozenButOnceBeforeTheThaw.
func TestAStaleReportDoesNotCount(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.settle()
	f.sets(0, v1alpha1.ClusterDisruptionAllowedCondition, metav1.ConditionFalse, "no disruption")
	f.freeze(0, true)
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2"))
	status := f.status()
	f.Expect([]int32{status.Clusters.Held, status.Clusters.Blocked}).To(Equal([]int32{1, 0}))
	f.freeze(0, false)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2"), "after the thaw it counts")
	f.Expect(f.status().Clusters.Blocked).To(BeEquivalentTo(1))
}

// Claim: No soak while a health condition does not hold. Broken: conditions are not looked at. Also: hub/internal/fleet/plan TestDecide, TestNothingIsBegunBeyondTheBounds.
func TestAWaveSucceedsOnlyWhileTheConditionsHold(t *testing.T) {
	const kind = "example.com/FrontendAvailable"
	f := newEnv(t, 2, both(inSteps(1, time.Hour), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.HealthConditions = []v1alpha1.MachineFleetHealthCondition{{Type: kind}}
		fleet.Spec.RolloutStrategy.Progressive.ProgressDeadline = "6h"
	}))
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -"), "a condition that is missing does not hold")
	status := f.status()
	f.Expect(status.Message).To(ContainSubstring("spec.healthConditions do not hold: %s (condition %s is missing on Cluster %s", f.clusters[0].Name, kind, f.clusters[0].Name))
	f.sets(0, kind, metav1.ConditionUnknown, "not known")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -"), "nor does one that is Unknown")
	f.sets(0, kind, metav1.ConditionTrue, "")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"))
	f.after(50 * time.Minute)
	f.sets(0, kind, metav1.ConditionFalse, "2 of 3")
	f.after(time.Minute)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -"), "the soak is interrupted")
	f.sets(0, kind, metav1.ConditionTrue, "")
	f.ExpectReconciled(f.fleet)
	f.after(59 * time.Minute)
	f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"), "and starts over")
	f.after(time.Minute)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2"))
	f.sets(0, kind, metav1.ConditionFalse, "2 of 3")
	f.sets(1, kind, metav1.ConditionFalse, "2 of 3")
	f.says(false, 1)
	f.after(6 * time.Hour)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, TimedOut v1.36.2"), "the deadline ends the waiting; what is updated is over")
	f.Expect(f.status().Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[1].Name), HaveField("Message",
		ContainSubstring("condition %s of Cluster %s is False (Tested) and must be True: 2 of 3", kind, f.clusters[1].Name)))))
}

// The hub is started again between any two looks.
func TestAConditionThatKeepsFailingEndsARollout(t *testing.T) {
	const kind = "example.com/FrontendAvailable"
	f := newEnv(t, 2, both(inSteps(1, time.Hour), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.HealthConditions = []v1alpha1.MachineFleetHealthCondition{{Type: kind}}
		fleet.Spec.RolloutStrategy.Progressive.ProgressDeadline = "2h"
	}))
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	for _, want := range []string{"Progressing", "Progressing", "Progressing", "Progressing", "TimedOut"} {
		f.sets(0, kind, metav1.ConditionTrue, "")
		f.ExpectReconciled(f.fleet)
		f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"))
		f.restart()
		f.sets(0, kind, metav1.ConditionFalse, "2 of 3")
		f.after(40 * time.Minute)
		f.restart()
		f.Expect(f.phases()).To(Equal(want + " v1.36.2, -"))
	}
	f.Expect(f.status().Failures).To(ConsistOf(HaveField("Reason", v1alpha1.ReasonRolloutTimedOut)))
}

func TestChangesOfWhatIsCheckedWakeFleets(t *testing.T) {
	passes := func(change func(*v1alpha1.Cluster)) bool {
		before := &v1alpha1.Cluster{}
		before.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ClusterDisruptionAllowedCondition, Status: metav1.ConditionFalse, Message: "a"}, {Type: "example.com/X", Status: metav1.ConditionTrue},
		}
		before.Status.PodQuota = &v1alpha1.PodQuota{Remaining: 1}
		after := before.DeepCopy()
		change(after)
		return membershipChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Cluster)
		want   bool
	}{
		"a budget":           {func(c *v1alpha1.Cluster) { c.Status.Conditions[0].Status = metav1.ConditionTrue }, true},
		"another budget":     {func(c *v1alpha1.Cluster) { c.Status.Conditions[0].Message = "b" }, true},
		"a health check":     {func(c *v1alpha1.Cluster) { c.Status.Conditions[1].Status = metav1.ConditionUnknown }, true},
		"one that is gone":   {func(c *v1alpha1.Cluster) { c.Status.Conditions = c.Status.Conditions[:1] }, true},
		"the quota":          {func(c *v1alpha1.Cluster) { c.Status.PodQuota.Remaining = 2 }, true},
		"a time":             {func(c *v1alpha1.Cluster) { c.Status.Conditions[1].LastTransitionTime = metav1.Now() }, false},
		"an agent's version": {func(c *v1alpha1.Cluster) { c.Status.AgentVersion = "v2" }, false},
	} {
		NewWithT(t).Expect(passes(test.change)).To(Equal(test.want), name)
	}
}

// Claim: A fleet waits for the control planes of its clusters, and says so. Broken: it is blocked as by what a user has to change; another cluster's SimulatedCluster is believed.
func TestAFleetWaitsForControlPlanesThatAreUpgradedToo(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.settle()
	f.reports(0, func(s *v1alpha1.ClusterStatus) { s.KubernetesVersion = "v1.36" })
	one := &v1alpha1.SimulatedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.clusters[0].Name, Name: f.clusters[0].Name}}
	one.Spec.Versions.ControlPlane = "v1.36"
	f.ExpectApplied(one)
	f.upgrade("v1.37.0")
	expect := func(reason string) {
		t.Helper()
		f.ExpectReconciled(f.fleet)
		f.Expect(f.phases()).To(Equal("Succeeded v1.36.2"))
		f.status()
		f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(reason))
	}
	expect(v1alpha1.ReasonClustersBlocked)
	f.ExpectExists(one)
	one.Spec.Versions.ControlPlane = "v1.37"
	f.Expect(f.Client.Update(t.Context(), one)).To(Succeed())
	expect(v1alpha1.ReasonClustersBlocked)
	for _, test := range []struct{ proof, reason string }{
		{one.Namespace + "/another", v1alpha1.ReasonClustersBlocked}, {one.ProofOfSimulation(), v1alpha1.ReasonAwaitingControlPlane},
	} {
		cluster := f.cluster(0)
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.SimulatedClusterAnnotation, test.proof)
		f.Expect(f.Client.Update(t.Context(), cluster)).To(Succeed())
		expect(test.reason)
	}
	f.Expect(f.status().Message).To(ContainSubstring("its control plane is to get v1.37 first"))
	f.reports(0, func(s *v1alpha1.ClusterStatus) { s.KubernetesVersion = "v1.37.1" })
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0"), "it starts by itself")
}
