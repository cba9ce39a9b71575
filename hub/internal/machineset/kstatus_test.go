package machineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// step lets the set be looked at once, so much later that its status is written.
func (f *env) step() {
	f.T.Helper()
	f.pass(time.Minute)
	f.ExpectReconciled(f.set)
}

// available lets the set have all its Machines, and those be ready.
func (f *env) available() {
	f.T.Helper()
	f.step()
	f.step()
	f.ready()
	f.step()
}

// frozenFor freezes the cluster.
func (f *env) frozenFor(reason string) {
	f.T.Helper()
	f.ExpectConditionApplied(f.cluster, v1alpha1.FrozenCondition, metav1.ConditionTrue, reason)
	f.step()
}

// Each state of a MachineSet, with its conditions and what the kstatus library makes of them.
// Edge case: kstatus: an unready MachineSet was Current.
func TestKStatus(t *testing.T) {
	const none = ""
	tests := map[string]struct {
		make         func(*env)
		ready        metav1.ConditionStatus
		kind, reason string
		want         status.Status
	}{
		"just created": {func(*env) {}, metav1.ConditionUnknown, v1alpha1.ReconcilingCondition, v1alpha1.ReasonPending, status.InProgressStatus},
		"its machines are not ready": {func(f *env) { f.step(); f.step() },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonMinimumReplicasUnavailable, status.InProgressStatus},
		"its machines are available": {(*env).available, metav1.ConditionTrue, none, none, status.CurrentStatus},
		"changed, and not looked at since": {func(f *env) { f.available(); f.scale(5) },
			metav1.ConditionTrue, none, none, status.InProgressStatus},
		"scaled down": {func(f *env) { f.available(); f.scale(1); f.step(); f.step() },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonScalingDown, status.InProgressStatus},
		"scaled to zero": {func(f *env) {
			f.available()
			f.scale(0)
			f.step()
			f.FinishDeletions(f.cluster.Name)
			f.step()
			f.step()
		}, metav1.ConditionTrue, none, none, status.CurrentStatus},
		"a machine is lost": {func(f *env) {
			f.available()
			f.MarkReady(f.machine(f.Machines(f.set.Namespace)[0].Name), false, f.Clock.Now())
			f.step()
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonMinimumReplicasUnavailable, status.InProgressStatus},
		"its class is missing": {func(f *env) {
			f.step()
			f.fail(f.Machines(f.set.Namespace)[0].Name, v1alpha1.ErrorMachineClassNotFound)
			f.step()
		}, metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ErrorMachineClassNotFound, status.FailedStatus},
		"its kubelet is not supported": {func(f *env) {
			f.step()
			f.fail(f.Machines(f.set.Namespace)[0].Name, v1alpha1.ErrorUnsupportedKubeletVersion)
			f.step()
		}, metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ErrorUnsupportedKubeletVersion, status.FailedStatus},
		"a machine ran into a timeout, and is replaced": {func(f *env) {
			f.available()
			f.fail(f.Machines(f.set.Namespace)[0].Name, v1alpha1.ErrorHealthTimeout)
			f.step()
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonMinimumReplicasUnavailable, status.InProgressStatus},
		"too many machines are unhealthy": {func(f *env) {
			f.connect()
			f.available()
			for _, machine := range f.Machines(f.set.Namespace) {
				f.fail(machine.Name, v1alpha1.ErrorHealthTimeout)
			}
			f.step()
		}, metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonTooManyUnhealthy, status.FailedStatus},
		"frozen by a user": {func(f *env) { f.available(); f.frozenFor(v1alpha1.ReasonManualFreeze) },
			metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonManualFreeze, status.InProgressStatus},
		"its agent is silent": {func(f *env) { f.available(); f.frozenFor(v1alpha1.ReasonAgentSilent) },
			metav1.ConditionUnknown, v1alpha1.ReconcilingCondition, v1alpha1.ReasonAgentSilent, status.InProgressStatus},
		"frozen for another hub": {func(f *env) { f.available(); f.frozenFor(v1alpha1.ReasonHubChanged) },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonHubChanged, status.FailedStatus},
		"another set selects its machines": {func(f *env) {
			f.deploymentBeside("pool", map[string]string{"app": "x"})
			f.step()
		}, metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonSelectorOverlap, status.FailedStatus},
		"it has too many machines": {func(f *env) { f.rest(); f.intrude(5); f.step() },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonOvershoot, status.FailedStatus},
		"being deleted": {func(f *env) {
			f.available()
			f.Expect(f.Client.Delete(f.T.Context(), f.refresh(), client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
			f.step()
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonDeleting, status.TerminatingStatus},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 3, nil)
			test.make(f)
			list := f.refresh().Status.Conditions
			f.Expect(testenv.KStatus(t, f.set)).To(Equal(test.want), "%+v", list)
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
