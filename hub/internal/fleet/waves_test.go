package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

func TestWavesFollowEachOther(t *testing.T) {
	f := newEnv(t, 4, inSteps(2, 0))
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -, -, -"), "the canary comes first")
	d := f.deployment(0)
	f.Expect(d.Spec.ClusterName).To(Equal(f.clusters[0].Name))
	f.Expect(*d.Spec.Replicas).To(BeEquivalentTo(3))
	f.Expect(d.Labels).To(HaveKeyWithValue(v1alpha1.MachineFleetNameLabel, f.fleet.Name))
	f.Expect(d.OwnerReferences).To(BeEmpty(), "or the garbage collector would delete it with the fleet")
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -, -, -"), "time is no health")

	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2, Progressing v1.36.2, -"))
	status := f.status()
	f.Expect([]int32{status.CurrentWave, status.Waves, status.Clusters.Selected, status.Clusters.Updated, status.Clusters.Progressing, status.Clusters.Waiting}).
		To(Equal([]int32{2, 2, 4, 1, 2, 1}))
	f.says(false, 2)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2, Succeeded v1.36.2, Progressing v1.36.2"))
	f.says(false, 1, 3)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.status().Clusters.Updated).To(BeEquivalentTo(4))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonRolloutComplete))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionTrue))

	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.status().Clusters.Waiting).To(BeEquivalentTo(3))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Status).To(Equal(metav1.ConditionFalse))
}

// A hub that is started again has heard no agent. It neither ends a soak on old news, nor starts one again.
func TestASoakLastsOverRestarts(t *testing.T) {
	f := newEnv(t, 2, inSteps(1, time.Hour))
	for i := range f.clusters {
		f.ExpectConditionApplied(f.cluster(i), v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("-, -"), "no agent has been heard")
	hear := func() {
		for _, cluster := range f.clusters {
			f.agents.NoteRenewal(cluster.Name, f.Clock.Now())
			f.agents.Hear(cluster.Name)
		}
	}
	hear()
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.after(time.Millisecond)
	f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"))
	since := rollout.ReadRecord(f.deployment(0)).Since
	f.Expect(since).To(HaveSuffix(".124456789Z"), "to the nanosecond")
	for _, pause := range []time.Duration{20 * time.Minute, 39 * time.Minute} {
		f.restart()
		f.after(pause)
		f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"))
		hear()
		f.ExpectReconciled(f.fleet)
		f.Expect(rollout.ReadRecord(f.deployment(0)).Since).To(Equal(since), "the soak did not start over")
	}
	f.after(time.Minute - 1)
	hear()
	f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"), "a nanosecond too early")
	f.restart()
	f.after(1)
	f.Expect(f.phases()).To(Equal("Soaking v1.36.2, -"), "the agent has not been heard")
	hear()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2"))
}

func TestAHeldClusterIsLeftAlone(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.freeze(1, true)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"), "nothing is started where it is frozen")
	f.freeze(2, true)
	f.says(true, 2)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Progressing held v1.37.0"), "what it says in the freeze does not count")
	f.Expect(f.status().Clusters.Held).To(BeEquivalentTo(2))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonClustersHeld))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.AvailableCondition).Status).To(Equal(metav1.ConditionUnknown), "not known is not False")
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.FrozenCondition).Message).To(ContainSubstring("2 of 3 clusters are frozen"))
	f.Expect(f.fleet.Status.Message).To(And(ContainSubstring(f.clusters[1].Name), ContainSubstring(f.clusters[2].Name)))
	f.freeze(1, false)
	f.freeze(2, false)
	f.says(false, 2)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.37.0"), "after the thaw it catches up")

	f.ExpectConditionApplied(f.cluster(1), v1alpha1.ReadyCondition, metav1.ConditionUnknown, v1alpha1.ReasonAgentSilent)
	f.says(false, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(ContainSubstring("Progressing held v1.37.0"), "nor does what a cluster says that is not Ready")
}

// The hub forgets an agent that is silent, and hears it again in the same moment in which the freeze ends.
// Claim: Time cut off does not count against progressDeadline. Broken: a silent agent leaves the record as it is.
// Edge case: Time cut off counted against progressDeadline.
func TestTheDeadlineBeginsAnewWhenAnAgentIsBack(t *testing.T) {
	f := newEnv(t, 2, both(inSteps(1, 0), func(fleet *v1alpha1.MachineFleet) {
		fleet.Spec.RolloutStrategy.Progressive.ProgressDeadline = "10m"
	}))
	for i, cluster := range f.clusters {
		f.agents.Hear(cluster.Name)
		f.ExpectConditionApplied(f.cluster(i), v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	}
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -"))
	f.agents.Forget(f.clusters[0].Name)
	f.freeze(0, true)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing held v1.36.2, -"))
	f.after(time.Hour)
	f.agents.Hear(f.clusters[0].Name)
	f.freeze(0, false)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -"), "it has had no time yet")
	f.after(10*time.Minute - 1)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -"))
	f.after(1)
	f.Expect(f.phases()).To(Equal("TimedOut v1.36.2, -"))
}

func TestAnUnreachableClusterIsSkipped(t *testing.T) {
	f := newEnv(t, 3, both(inSteps(1, 0), func(fleet *v1alpha1.MachineFleet) { fleet.Spec.UnreachablePolicy = v1alpha1.UnreachableSkip }))
	f.settle()
	f.upgrade("v1.37.0")
	f.freeze(0, true)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"), "a mandatory group is not skipped")
	f.freeze(0, false)
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.freeze(1, true)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing held v1.37.0, Progressing v1.37.0"), "it takes up no room")
	f.says(false, 1, 2)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.status().Clusters.Held).To(BeEquivalentTo(1))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonClustersHeld), "the rollout is not complete without it")
	f.freeze(1, false)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.37.0"), "after the thaw it catches up")
}

func TestAnUnreachableClusterCountsAsFailed(t *testing.T) {
	f := newEnv(t, 3, both(inSteps(1, 0), func(fleet *v1alpha1.MachineFleet) { fleet.Spec.UnreachablePolicy = v1alpha1.UnreachableFail }))
	f.settle()
	f.edit(2, func(d *v1alpha1.MachineDeployment) { d.Spec.Paused = true })
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.freeze(1, true)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"))
	status := f.status()
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.StalledCondition).Reason).To(Equal(v1alpha1.ReasonTooManyFailures))
	f.Expect(status.Failures).To(ConsistOf(And(HaveField("Cluster", f.clusters[1].Name), HaveField("Reason", v1alpha1.ReasonClusterUnreachable),
		HaveField("Message", ContainSubstring("choose Hold or Skip")))), "one that a user paused is no failure")
	f.Expect([]int32{status.Clusters.Failed, status.Clusters.Waiting, status.Clusters.Held}).To(Equal([]int32{1, 1, 2}))
	f.freeze(1, false)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"), "it is back, and in its turn")
}

func TestAFailureStopsTheRollout(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(true, 0)
	f.ExpectReconciled(f.fleet)
	f.after(time.Hour)
	f.Expect(f.phases()).To(Equal("Failed v1.37.0, Succeeded v1.36.2, Succeeded v1.36.2"), "nothing further moves")
	status := f.status()
	f.Expect(status.Failures).To(HaveLen(1))
	f.Expect(status.Failures[0].Cluster).To(Equal(f.clusters[0].Name))
	f.Expect(status.Failures[0].Message).To(ContainSubstring("0 of 3 machines"))
	f.Expect(f.ReadCondition(f.fleet, v1alpha1.StalledCondition).Reason).To(Equal(v1alpha1.ReasonTooManyFailures))
	f.Expect(status.Message).To(And(ContainSubstring(f.clusters[0].Name), ContainSubstring("raise maxFailures")))

	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Progressing v1.37.0"), "one that recovers lets the others continue")
}

// The fields that the template says are the fleet's; those that it leaves open are a user's.
// Claim: Hand edits of the fleet's own fields are reverted, others stay. Broken: the fields are not named.
func TestAHandEditIsTakenBackOfTheFleetsOwnFieldsOnly(t *testing.T) {
	f := newEnv(t, 2, both(inSteps(2, 0), func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Replicas = nil }))
	f.settle()
	f.edit(1, func(d *v1alpha1.MachineDeployment) {
		d.Spec.Template.Spec.Versions.Kubelet, d.Spec.Replicas = "v1.36.9", new(int32(7))
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "mine", "x")
		delete(d.Labels, v1alpha1.MachineFleetNameLabel)
	})
	f.Events()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Succeeded v1.36.2"))
	f.Expect(f.Events()).To(ConsistOf(HavePrefix("Normal MachineDeploymentCorrected Corrected metadata.labels[" + v1alpha1.MachineFleetNameLabel +
		"], spec.template.spec.versions.kubelet of MachineDeployment " + f.clusters[1].Name + "/" + f.fleet.Name + ": the fleet owns the fields that it sets")))
	d := f.deployment(1)
	f.Expect(*d.Spec.Replicas).To(BeEquivalentTo(7), "the fleet says no replicas, so they are the user's")
	f.Expect(d.Annotations).To(HaveKeyWithValue("mine", "x"))
}

func TestATemplateChangedInMidRollout(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, 0))
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"))
	f.upgrade("v1.37.1")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2"),
		"one at a time: the canary waits for the cluster that is in progress with the template before, which waits for the canary's wave")
	f.says(true, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.37.1, Failed v1.37.0, Succeeded v1.36.2"), "a failure of the template before makes room as well")
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.1, Progressing v1.37.1, Succeeded v1.36.2"), "and does not count any more")
	f.says(false, 1)
	f.ExpectReconciled(f.fleet)
	f.says(false, 2)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.1, Succeeded v1.37.1, Succeeded v1.37.1"))
}

func TestAClusterJoinsAndLeavesInMidRollout(t *testing.T) {
	f := newEnv(t, 4, inSteps(1, 0))
	f.label(3, testLabel, "")
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
	f.says(false, 0)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2, -"))
	f.label(3, testLabel, f.fleet.Name)
	f.label(1, testLabel, "")
	f.label(2, testLabel, "")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Progressing v1.37.0, Succeeded v1.36.2, -"),
		"the one that left in its middle takes up its place until it is through")
	status := f.status()
	f.Expect([]int32{status.Clusters.Selected, status.Clusters.Progressing, status.Clusters.Waiting}).To(Equal([]int32{2, 0, 1}), "it is not counted any more")
	f.Expect(status.Message).To(ContainSubstring("left the fleet during the rollout: " + f.clusters[1].Name))
	f.says(false, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Succeeded v1.37.0, Succeeded v1.37.0, Succeeded v1.36.2, Progressing v1.37.0"), "one that left before its turn is left alone")

	f.label(1, "group", "canary")
	f.label(1, testLabel, f.fleet.Name)
	f.says(true, 1)
	f.ExpectReconciled(f.fleet)
	f.Expect(rollout.ReadRecord(f.deployment(1)).Group).To(BeEmpty(), "it keeps the group in which it was started")
}

// A decision rests on what the API server says, however far the cache is behind.
func TestACacheThatIsBehindBeginsNothing(t *testing.T) {
	f := newEnv(t, 3, inSteps(1, 0))
	stale := &v1alpha1.MachineDeploymentList{}
	f.faults.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if deployments, is := list.(*v1alpha1.MachineDeploymentList); is {
			stale.DeepCopyInto(deployments)
			return nil
		}
		return c.List(ctx, list, options...)
	}
	f.restart()
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -, -"))
	f.Writes.Counts()
	f.label(0, "group", "") // Now the first by name would be another, were it not for what has started.
	f.label(1, "group", "canary")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -, -"))
	f.Expect(f.Writes.Counts()).NotTo(HaveKey("create MachineDeployment"))
}

// The later changes of a plan rest on the earlier ones. One cluster whose API refuses everything stops the others no longer
// than that.
func TestAFailedWriteEndsThePlanAndStopsNoOtherCluster(t *testing.T) {
	f := newEnv(t, 4, nil)
	broken, tried := f.clusters[1].Name, 0
	f.faults = interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if object.GetNamespace() == broken {
			tried++
			return errors.New("refused by the test")
		}
		return c.Create(ctx, object, options...)
	}}
	f.restart()
	f.Expect(f.Reconcile(f.fleet)).Error().To(MatchError(ContainSubstring("refused by the test")))
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -, -, -"), "none of those after it were written")
	f.ExpectReconciled(f.fleet)
	f.Expect(f.phases()).To(Equal("Progressing v1.36.2, -, Progressing v1.36.2, Progressing v1.36.2"))
	f.Expect(tried).To(Equal(1), "it is not tried again at once")
	f.says(false, 0, 2, 3)
	f.Clock.Step(time.Second)
	f.ExpectReconciled(f.fleet)
	f.Expect(f.refresh().Status.Failures).To(HaveLen(1))
	f.Expect(f.fleet.Status.Failures[0].Reason).To(Equal(v1alpha1.ReasonWriteRefused))
	f.Expect(f.fleet.Status.Message).To(ContainSubstring("refused by the test"))
	broken = ""
	f.after(rollout.FirstRetry)
	f.Expect(f.phases()).To(Equal("Succeeded v1.36.2, Progressing v1.36.2, Succeeded v1.36.2, Succeeded v1.36.2"))
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	f := newEnv(t, 3, inSteps(2, time.Minute))
	f.settle()
	for range 3 {
		f.after(time.Hour)
	}
	f.restart()
	f.after(time.Hour)
	f.Expect(f.Writes.Counts()).To(BeEmpty())
}

func TestWritesPerUpgradedCluster(t *testing.T) {
	const clusters = 5
	f := newEnv(t, clusters, inSteps(1, time.Minute))
	f.settle()
	f.upgrade("v1.37.0")
	for range 4 * clusters {
		f.after(40 * time.Second)
		for i := range f.clusters {
			if d := f.deployment(i); d.Status.ObservedGeneration != d.Generation {
				f.says(false, i)
			}
		}
	}
	f.Expect(f.status().Clusters.Updated).To(BeEquivalentTo(clusters))
	counts := f.Writes.Counts()
	f.Expect(counts["patch MachineDeployment"]).To(BeNumerically("<=", 3*clusters), "%v", counts)
	f.Expect(counts["patch MachineDeployment"]+counts["patch MachineFleet/status"]).To(BeNumerically("<=", 6*clusters), "%v", counts)
	t.Logf("upgrading %d clusters: %v", clusters, counts)
}
