package machinedeployment

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// step lets the deployment be looked at once, so much later that its status is written.
func (f *env) step() {
	f.T.Helper()
	f.Clock.Step(reconciler.LongestStatusInterval)
	f.ExpectReconciled(f.deployment)
}

// frozenFor freezes the cluster.
func (f *env) frozenFor(reason string) {
	f.T.Helper()
	f.ExpectExists(f.cluster)
	freeze.RecordOnCluster(f.cluster, freeze.Verdict{Frozen: true, Reason: reason, Message: "said by the test"}, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	f.step()
}

// failNew lets all Machines of the current template fail.
func (f *env) failNew(reason string) {
	f.T.Helper()
	for _, machine := range f.Machines(f.cluster.Name) {
		if machine.Spec.Versions.Kubelet != f.deployment.Spec.Template.Spec.Versions.Kubelet {
			continue
		}
		machine.Status.Phase, machine.Status.ErrorReason, machine.Status.ErrorMessage = v1alpha1.MachineFailed, reason, "said by the test"
		f.ExpectStatusApplied(&machine)
	}
	f.step()
}

// midRollout starts a rollout and stops it in its middle.
func (f *env) midRollout() {
	f.T.Helper()
	f.rest()
	f.upgrade("v1.37.0")
	f.step()
	f.reconcileSets()
	f.step()
}

// Each state of a MachineDeployment, with its conditions and what the kstatus library makes of them.
// Edge case: kstatus: every MachineDeployment was Current. Also: test/api TestKStatusOfWhatIsJustCreated.
func TestKStatus(t *testing.T) {
	const none = ""
	tests := map[string]struct {
		make  func(*env)
		ready metav1.ConditionStatus
		// progress is Reconciling or Stalled with its reason; none for neither.
		kind, reason string
		want         status.Status
	}{
		"just created": {func(*env) {}, metav1.ConditionUnknown, v1alpha1.ReconcilingCondition, v1alpha1.ReasonPending, status.InProgressStatus},
		"its first machines are made": {func(f *env) { f.step(); f.reconcileSets(); f.step() },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonRollingOut, status.InProgressStatus},
		"rolled out": {func(f *env) { f.rest() }, metav1.ConditionTrue, none, none, status.CurrentStatus},
		"changed, and not looked at since": {func(f *env) { f.rest(); f.upgrade("v1.37.0") },
			metav1.ConditionTrue, none, none, status.InProgressStatus},
		"in the middle of a rollout": {(*env).midRollout,
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonRollingOut, status.InProgressStatus},
		"scaled up": {func(f *env) { f.rest(); f.scale(5); f.step() },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonScalingUp, status.InProgressStatus},
		"scaled down": {func(f *env) { f.rest(); f.scale(1); f.step(); f.reconcileSets(); f.step() },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonScalingDown, status.InProgressStatus},
		"scaled to zero": {func(f *env) { f.rest(); f.scale(0); f.rest() },
			metav1.ConditionTrue, none, none, status.CurrentStatus},
		"a machine is not ready": {func(f *env) {
			f.rest()
			f.MarkReady(&f.Machines(f.cluster.Name)[0], false, f.Clock.Now())
			f.step()
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonMinimumReplicasUnavailable, status.InProgressStatus},
		"paused in the middle of a rollout": {func(f *env) { f.midRollout(); f.pause(); f.step() },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonPaused, status.InProgressStatus},
		"paused at rest": {func(f *env) { f.rest(); f.pause(); f.step() },
			metav1.ConditionTrue, none, none, status.CurrentStatus},
		"waits for a user to delete machines": {func(f *env) {
			f.update(func(d *v1alpha1.MachineDeployment) { d.Spec.Strategy.Type = v1alpha1.OnDelete })
			f.rest()
			f.upgrade("v1.37.0")
			f.rest()
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonAwaitingRequest, status.InProgressStatus},
		"past its deadline": {func(f *env) { f.midRollout(); f.Clock.SetTime(f.Clock.Now().Add(time.Hour)); f.step() },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonProgressDeadlineExceeded, status.FailedStatus},
		"its kubelet is not supported": {func(f *env) { f.serves("v1.37.1"); f.rest(); f.upgrade("v1.99.0"); f.rest() },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonUnsupportedKubeletVersion, status.FailedStatus},
		"its class is missing": {func(f *env) { f.step(); f.reconcileSets(); f.failNew(v1alpha1.ErrorMachineClassNotFound) },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ErrorMachineClassNotFound, status.FailedStatus},
		"a machine ran into a timeout, and is replaced": {func(f *env) { f.step(); f.reconcileSets(); f.failNew(v1alpha1.ErrorCreationTimeout) },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonRollingOut, status.InProgressStatus},
		"too many machines are unhealthy": {func(f *env) {
			f.rest()
			set := f.list()[0]
			f.ExpectConditionApplied(&set, v1alpha1.RemediationAllowedCondition, metav1.ConditionFalse, v1alpha1.ReasonTooManyUnhealthy)
			f.step()
		}, metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonTooManyUnhealthy, status.FailedStatus},
		"frozen by a user": {func(f *env) { f.rest(); f.frozenFor(v1alpha1.ReasonManualFreeze) },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonManualFreeze, status.InProgressStatus},
		"frozen for another hub": {func(f *env) { f.rest(); f.frozenFor(v1alpha1.ReasonHubRestored) },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonHubRestored, status.FailedStatus},
		"its agent is silent": {func(f *env) { f.rest(); f.frozenFor(v1alpha1.ReasonAgentSilent) },
			metav1.ConditionUnknown, v1alpha1.ReconcilingCondition, v1alpha1.ReasonAgentSilent, status.InProgressStatus},
		"its agent is silent, and machines failed before": {func(f *env) {
			f.step()
			f.reconcileSets()
			f.failNew(v1alpha1.ErrorMachineClassNotFound)
			f.frozenFor(v1alpha1.ReasonAgentSilent)
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonAgentSilent, status.InProgressStatus},
		"one of its sets has too many machines": {func(f *env) {
			f.rest()
			set := f.list()[0]
			for range 5 {
				f.ExpectApplied(&v1alpha1.Machine{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: set.Namespace, GenerateName: "intruder-", Labels: set.Spec.Template.Metadata.Labels,
						OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&set, v1alpha1.GroupVersion.WithKind("MachineSet"))},
					},
					Spec: v1alpha1.MachineSpec{ClusterName: f.cluster.Name, MachineTemplateBody: set.Spec.Template.Spec},
				})
			}
			f.reconcileSets()
			f.step()
		}, metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonOvershoot, status.FailedStatus},
		"being deleted": {func(f *env) {
			f.rest()
			f.Expect(f.Client.Delete(f.T.Context(), f.refresh(), client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
			f.step()
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonDeleting, status.TerminatingStatus},
	}
	// With -short, one state of each answer of the library, of each condition, and of what the hub does not know.
	short := sets.New("rolled out", "in the middle of a rollout", "past its deadline", "frozen by a user", "its agent is silent", "being deleted")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !short.Has(name) {
				testenv.Long(t)
			}
			f := newEnv(t, 3, nil)
			test.make(f)
			list := f.refresh().Status.Conditions
			f.Expect(testenv.KStatus(t, f.deployment)).To(Equal(test.want), "%+v", list)
			f.Expect(meta.FindStatusCondition(list, v1alpha1.ReadyCondition).Status).To(Equal(test.ready), "%+v", list)
			for _, kind := range []string{v1alpha1.ReconcilingCondition, v1alpha1.StalledCondition} {
				condition := meta.FindStatusCondition(list, kind)
				if kind != test.kind {
					f.Expect(condition).To(BeNil(), "%+v", list)
					continue
				}
				f.Expect(condition).NotTo(BeNil(), "%+v", list)
				f.Expect(condition.Reason).To(Equal(test.reason))
				f.Expect(condition.Message).NotTo(BeEmpty())
			}
			f.Writes.Counts()
			f.step()
			f.step()
			if test.want == status.CurrentStatus {
				f.Expect(f.Writes.Counts()).To(BeEmpty(), "what is at rest is not written")
			}
		})
	}
}

func (f *env) scale(replicas int32) {
	f.T.Helper()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = &replicas })
}

func (f *env) pause() {
	f.T.Helper()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Paused = true })
}
