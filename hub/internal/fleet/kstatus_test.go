package fleet

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// midRollout upgrades the first cluster of a fleet that has settled.
func (f *env) midRollout() {
	f.T.Helper()
	f.settle()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.fleet)
}

// Each state of a MachineFleet, with its conditions and what the kstatus library makes of them.
func TestKStatus(t *testing.T) {
	// With -short, one state of each answer of the library and of each condition.
	short := sets.New("rolled out", "in the middle of a rollout", "too many clusters failed")
	for name, test := range map[string]struct {
		make  func(*env)
		ready metav1.ConditionStatus
		// kind is Reconciling or Stalled, and reason its reason; both are empty for neither.
		kind, reason string
		want         status.Status
	}{
		"in the middle of a rollout": {(*env).midRollout, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonRollingOut, status.InProgressStatus},
		"rolled out":                 {(*env).settle, metav1.ConditionTrue, "", "", status.CurrentStatus},
		"paused in the middle of a rollout": {func(f *env) {
			f.midRollout()
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Paused = true })
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonPaused, status.InProgressStatus},
		"waiting for an approval": {func(f *env) {
			f.settle()
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.Groups[0].Approval = v1alpha1.GroupApprovalRequired })
			f.upgrade("v1.37.0")
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonAwaitingApproval, status.InProgressStatus},
		"waiting for a maintenance window": {func(f *env) {
			f.settle()
			f.update(func(fleet *v1alpha1.MachineFleet) {
				fleet.Spec.MaintenanceWindows = []v1alpha1.MaintenanceWindow{{Name: "leap", Schedule: "0 0 29 2 *", Duration: metav1.Duration{Duration: time.Hour}}}
			})
			f.upgrade("v1.37.0")
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonOutsideMaintenanceWindow, status.InProgressStatus},
		"too many clusters failed": {func(f *env) { f.midRollout(); f.says(true, 0); f.ExpectReconciled(f.fleet) },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonTooManyFailures, status.FailedStatus},
		"a cluster is rolled back": {func(f *env) {
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.RollbackPolicy = v1alpha1.RollbackFailed })
			f.midRollout()
			f.says(true, 0)
			f.ExpectReconciled(f.fleet)
		}, metav1.ConditionFalse, v1alpha1.ReconcilingCondition, v1alpha1.ReasonRollingBack, status.InProgressStatus},
		"a cluster was rolled back": {func(f *env) {
			f.update(func(fleet *v1alpha1.MachineFleet) { fleet.Spec.RollbackPolicy = v1alpha1.RollbackFailed })
			f.midRollout()
			f.says(true, 0)
			f.ExpectReconciled(f.fleet)
			f.says(false, 0)
			f.ExpectReconciled(f.fleet)
		}, metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonRolledBack, status.FailedStatus},
		"aborted": {func(f *env) {
			f.midRollout()
			f.abort()
		}, metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonAborted, status.FailedStatus},
		"a kubelet that is older": {func(f *env) { f.settle(); f.upgrade("v1.36.1") },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonKubeletDowngrade, status.FailedStatus},
		"no cluster is selected any more": {func(f *env) { f.settle(); f.label(0, testLabel, ""); f.label(1, testLabel, "") },
			metav1.ConditionFalse, v1alpha1.StalledCondition, v1alpha1.ReasonSelectionEmptied, status.FailedStatus},
	} {
		t.Run(name, func(t *testing.T) {
			if !short.Has(name) {
				testenv.Long(t)
			}
			f := newEnv(t, 2, inSteps(1, 0))
			test.make(f)
			conditions := f.status().Conditions
			f.Expect(f.ReadCondition(f.fleet, v1alpha1.ReadyCondition).Status).To(Equal(test.ready), f.fleet.Status.Message)
			for _, kind := range []string{v1alpha1.ReconcilingCondition, v1alpha1.StalledCondition} {
				if kind == test.kind {
					f.Expect(f.ReadCondition(f.fleet, kind)).To(HaveField("Reason", test.reason), f.fleet.Status.Message)
				} else {
					f.Expect(meta.FindStatusCondition(conditions, kind)).To(BeNil(), kind)
				}
			}
			f.Expect(testenv.KStatus(t, f.fleet)).To(Equal(test.want))
		})
	}
}
