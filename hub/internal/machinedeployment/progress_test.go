package machinedeployment

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// stuckRollout is a rollout that has just started and whose new Machine does not come up.
func stuckRollout(t *testing.T, deadline int32) *env {
	t.Helper()
	f := newEnv(t, 2, nil)
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.ProgressDeadlineSeconds = &deadline })
	f.rest()
	f.upgrade("v1.37.0")
	for range 4 {
		f.ExpectReconciled(f.deployment)
		f.reconcileSets()
	}
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{2, 1}))
	f.Expect(f.after(countsInterval.First)).To(Equal(v1alpha1.ReasonRollingOut), "the counts are written now")
	return f
}

// after lets time pass and looks again; it returns the Progressing condition's reason.
func (f *env) after(wait time.Duration) string {
	f.T.Helper()
	f.Clock.Step(wait)
	f.ExpectReconciled(f.deployment)
	return f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason
}

// restart is another hub.
func (f *env) restart() {
	f.T.Helper()
	logic, err := New(Deps{Client: f.Writes.Count(f.Client), Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(f.Client, f.Client, logic)
}

func TestRolloutWithoutProgressIsLate(t *testing.T) {
	f := stuckRollout(t, 600)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)}
	f.Clock.Step(300 * time.Second)
	result, err := f.Runner.Reconcile(t.Context(), request)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result.RequeueAfter).To(BeNumerically("~", 300*time.Second, 30*time.Second), "wakes at the deadline")
	f.restart()
	f.Expect(f.after(240 * time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.after(120*time.Second)).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded), "the time before the restart counts")
	late := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(late.Status).To(Equal(metav1.ConditionFalse))
	f.Expect(late.Message).To(ContainSubstring("no progress for 10m0s"))
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("ProgressDeadlineExceeded")))
	f.Expect(f.after(time.Hour)).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded), "it stays late")

	f.rest()
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable), "it keeps trying")
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{0, 2}))
}

func TestProgressStartsTheDeadlineAnew(t *testing.T) {
	f := stuckRollout(t, 600)
	f.Expect(f.after(500 * time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	for _, machine := range f.Machines(f.cluster.Name) {
		if !meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
			f.MarkReady(&machine, true, f.Clock.Now())
		}
	}
	f.Expect(f.after(time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.after(countsInterval.First)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.after(500 * time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.after(200 * time.Second)).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded))
}

func TestFrozenTimeDoesNotCountForTheDeadline(t *testing.T) {
	f := stuckRollout(t, 600)
	f.Expect(f.after(400 * time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Annotations[v1alpha1.FreezeAnnotation] = "night"
	})
	f.ExpectReconciled(f.deployment)
	f.Expect(f.after(24 * time.Hour)).To(Equal(v1alpha1.ReasonRollingOut))
	f.restart()
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		delete(deployment.Annotations, v1alpha1.FreezeAnnotation)
	})
	f.Expect(f.after(100 * time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.after(120*time.Second)).To(Equal(v1alpha1.ReasonRollingOut), "520 s of 600 s are used up")
	f.Expect(f.after(120*time.Second)).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded), "the time before the freeze counts")
}

func TestPausedTimeDoesNotCountForTheDeadline(t *testing.T) {
	f := stuckRollout(t, 600)
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Paused = true })
	f.Expect(f.after(time.Second)).To(Equal(v1alpha1.ReasonPaused))
	f.Expect(f.after(time.Hour)).To(Equal(v1alpha1.ReasonPaused))
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Paused = false })
	f.Expect(f.after(time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.after(550 * time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.after(100 * time.Second)).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded))
	f.Expect(f.Events()).To(ContainElements(ContainSubstring("RolloutPaused"), ContainSubstring("RolloutResumed")))
}

func TestNewTemplateStartsTheDeadlineAnew(t *testing.T) {
	f := stuckRollout(t, 600)
	f.Expect(f.after(700 * time.Second)).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded))
	f.upgrade("v1.38.0")
	f.Expect(f.after(time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
}

func TestHubThatHasJustStartedDeclaresNothingLate(t *testing.T) {
	f := stuckRollout(t, 600)
	f.Clock.Step(time.Hour)
	f.restart()
	f.Expect(f.after(time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.after(startGrace)).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded))
}

func TestLostMachineIsNoRollout(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	machine := f.Machines(f.cluster.Name)[0]
	f.MarkReady(&machine, false, f.Clock.Now())
	f.Expect(f.after(time.Hour)).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.AvailableCondition).Status).To(Equal(metav1.ConditionFalse))
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(4)) })
	f.Expect(f.after(time.Hour)).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
}

func TestRemediationOfASetIsTheDeploymentsToo(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.ExpectReconciled(f.deployment)
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.RemediationAllowedCondition)).To(BeNil(), "no set has said anything")
	set := f.list()[0]
	say := func(status metav1.ConditionStatus, reason string) {
		f.ExpectConditionApplied(&set, v1alpha1.RemediationAllowedCondition, status, reason)
		f.after(time.Minute)
	}
	say(metav1.ConditionFalse, v1alpha1.ReasonTooManyUnhealthy)
	stopped := f.ReadCondition(f.deployment, v1alpha1.RemediationAllowedCondition)
	f.Expect(stopped.Status).To(Equal(metav1.ConditionFalse))
	f.Expect(stopped.Reason).To(Equal(v1alpha1.ReasonTooManyUnhealthy))
	f.Expect(stopped.Message).To(ContainSubstring(set.Name))
	say(metav1.ConditionTrue, v1alpha1.ReasonWithinMaxUnhealthy)
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.RemediationAllowedCondition).Status).To(Equal(metav1.ConditionTrue))
}

func TestProgressSaysWhyNewMachinesFailed(t *testing.T) {
	f := stuckRollout(t, 600)
	sets := f.list()
	for _, machine := range f.Machines(f.cluster.Name) {
		if !metav1.IsControlledBy(&machine, &sets[1]) {
			continue
		}
		machine.Status.Phase, machine.Status.ErrorReason = v1alpha1.MachineFailed, v1alpha1.ErrorMachineClassNotFound
		machine.Status.ErrorMessage = "no MachineClass small: create it"
		f.ExpectStatusApplied(&machine)
	}
	f.Expect(f.after(4 * countsInterval.First)).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Message).To(MatchRegexp(
		`^1 of 2 machines have the current template; 1 failed, pool-\S+ for the reason MachineClassNotFound: no MachineClass small: create it$`))
}

func TestMachinesThatAreBeingDeletedCountAsTerminatingOnly(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	victim := f.Machines(f.cluster.Name)[0]
	f.ExpectDeleted(&victim)
	f.Expect(f.after(4*countsInterval.First)).To(Equal(v1alpha1.ReasonNewMachineSetAvailable), "it is no rollout")
	status := f.refresh().Status
	f.Expect([]int32{status.Replicas, status.TerminatingReplicas, status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas}).
		To(Equal([]int32{2, 1, 1, 1, 1}))
	f.reconcileSets()
	f.Clock.Step(reconciler.LongestStatusInterval)
	f.reconcileSets()
	set := f.list()[0].Status
	f.Expect([]int32{set.Replicas, set.TerminatingReplicas, set.ReadyReplicas, set.AvailableReplicas}).To(Equal([]int32{2, 1, 1, 1}))
	f.rest()
	f.Expect(f.refresh().Status.TerminatingReplicas).To(BeZero())
}

// With the default timeouts a new Machine fails and is replaced before the deadline, again and again: that is no progress.
// Edge case: A failing Machine counted as progress.
func TestAMachineThatFailsOverAndOverIsNoProgress(t *testing.T) {
	f := stuckRollout(t, 1800)
	for range 2 {
		for _, machine := range f.Machines(f.cluster.Name) {
			if machine.Spec.Versions.Kubelet == "v1.37.0" {
				f.ExpectDeleted(&machine)
			}
		}
		f.after(countsInterval.Longest)
		f.Expect(f.refresh().Status.UpdatedReplicas).To(BeZero(), "the status tells that it goes")
		f.FinishDeletions(f.cluster.Name)
		f.reconcileSets()
		f.after(countsInterval.Longest)
		f.Expect(f.refresh().Status.UpdatedReplicas).To(BeEquivalentTo(1), "the next one is there")
		f.Expect(f.after(700 * time.Second)).To(Equal(v1alpha1.ReasonRollingOut))
	}
	f.Expect(f.after(400 * time.Second)).To(Equal(v1alpha1.ReasonProgressDeadlineExceeded))
	f.rest()
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
}
