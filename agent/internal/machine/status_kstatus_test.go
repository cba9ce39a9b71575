package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// stale is a Machine that was Ready and that the hub has marked since.
func stale() *v1alpha1.Machine {
	machine := readyMachine()
	meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{
		Type: v1alpha1.MachineStaleCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAgentSilent, Message: "said by the hub",
	})
	return machine
}

// Each state of a Machine, with its conditions and what the kstatus library makes of them.
// Edge case: kstatus: a failed Machine was InProgress. Also: hub/internal/machines TestKStatusOfAMarkedMachine.
func TestKStatus(t *testing.T) {
	unjoined := func(in *Input) { in.Machine.Spec.ProviderID, in.Node = nil, nil }
	invalid := func(reason string) func(*Input) {
		return func(in *Input) {
			unjoined(in)
			in.Instance, in.Terminal = nil, &Terminal{Reason: reason, Message: "m"}
		}
	}
	reconciling, stalled := v1alpha1.ReconcilingCondition, v1alpha1.StalledCondition
	deleted := metav1.NewTime(now)
	tests := map[string]struct {
		machine *v1alpha1.Machine
		change  func(*Input)
		ready   metav1.ConditionStatus
		// kind is Reconciling or Stalled; empty for neither.
		kind, reason string
		want         status.Status
	}{
		"nothing is made yet": {fresh(), func(in *Input) { unjoined(in); in.Instance = nil },
			metav1.ConditionFalse, reconciling, v1alpha1.ReasonPodMissing, status.InProgressStatus},
		"its pod starts": {fresh(), func(in *Input) { unjoined(in); in.Instance.State = Pending },
			metav1.ConditionFalse, reconciling, v1alpha1.ReasonPodPending, status.InProgressStatus},
		"its node has not joined": {fresh(), unjoined, metav1.ConditionFalse, reconciling, v1alpha1.ReasonNodeNotFound, status.InProgressStatus},
		"its node is Ready":       {fresh(), func(*Input) {}, metav1.ConditionTrue, "", "", status.CurrentStatus},
		"its node is not Ready": {readyMachine(), func(in *Input) { in.Node = nodeThat(corev1.ConditionFalse) },
			metav1.ConditionFalse, reconciling, v1alpha1.ReasonNodeNotReady, status.InProgressStatus},
		"its node is Unknown": {readyMachine(), func(in *Input) { in.Node = nodeThat(corev1.ConditionUnknown) },
			metav1.ConditionUnknown, reconciling, v1alpha1.ReasonNodeStatusUnknown, status.InProgressStatus},
		"its class is missing": {fresh(), invalid(v1alpha1.ErrorMachineClassNotFound),
			metav1.ConditionFalse, stalled, v1alpha1.ErrorMachineClassNotFound, status.FailedStatus},
		"its kubelet is not supported": {fresh(), invalid(v1alpha1.ErrorUnsupportedKubeletVersion),
			metav1.ConditionFalse, stalled, v1alpha1.ErrorUnsupportedKubeletVersion, status.FailedStatus},
		"its class is deleted while it runs": {readyMachine(), func(in *Input) {
			in.Terminal = &Terminal{Reason: v1alpha1.ErrorMachineClassNotFound, Message: "m"}
		},
			metav1.ConditionTrue, stalled, v1alpha1.ErrorMachineClassNotFound, status.FailedStatus},
		"it was not Ready in time": {fresh(), func(in *Input) { unjoined(in); in.Elapsed.Creation = in.Limits.Creation },
			metav1.ConditionFalse, stalled, v1alpha1.ErrorCreationTimeout, status.FailedStatus},
		"it waits for its update": {readyMachine(), func(in *Input) { outdated(in); in.Update.Waiting = "others" },
			metav1.ConditionTrue, reconciling, v1alpha1.ReasonAwaitingUpdate, status.InProgressStatus},
		"it is drained for its update": {readyMachine(), draining, metav1.ConditionTrue, reconciling, v1alpha1.ReasonDraining, status.InProgressStatus},
		"it cannot be updated in place": {readyMachine(), func(in *Input) { outdated(in); in.Update.Unsupported = "no way" },
			metav1.ConditionTrue, stalled, v1alpha1.ReasonInPlaceUnsupported, status.FailedStatus},
		"its agent is frozen": {readyMachine(), func(in *Input) { in.Frozen = true }, metav1.ConditionTrue, "", "", status.CurrentStatus},
		"its agent is silent": {stale(), func(*Input) {}, metav1.ConditionTrue, reconciling, v1alpha1.ReasonAgentSilent, status.InProgressStatus},
		"its agent is silent, and it had failed": {stale(), invalid(v1alpha1.ErrorMachineClassNotFound),
			metav1.ConditionFalse, reconciling, v1alpha1.ReasonAgentSilent, status.InProgressStatus},
		"being deleted": {readyMachine(), func(in *Input) { in.Machine.DeletionTimestamp = &deleted },
			metav1.ConditionFalse, reconciling, v1alpha1.ReasonDeleting, status.TerminatingStatus},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			machine := test.machine
			machine.Status = Compute(input(machine, test.change))
			list := machine.Status.Conditions
			if got := testenv.KStatus(t, machine); got != test.want {
				t.Errorf("kstatus says %s, want %s: %+v", got, test.want, list)
			}
			if got := statusOf(machine.Status, v1alpha1.ReadyCondition); got != test.ready {
				t.Errorf("Ready is %s, want %s", got, test.ready)
			}
			for _, kind := range []string{reconciling, stalled} {
				found := meta.FindStatusCondition(list, kind)
				switch {
				case kind != test.kind && found != nil:
					t.Errorf("there is %s: %+v", kind, found)
				case kind == test.kind && (found == nil || found.Reason != test.reason || found.ObservedGeneration != machine.Generation):
					t.Errorf("%s is %+v, want the reason %s", kind, found, test.reason)
				}
			}
			machine.Generation++
			if got := testenv.KStatus(t, machine); got != status.InProgressStatus && got != status.TerminatingStatus {
				t.Errorf("kstatus says %s of a change that the agent has not looked at", got)
			}
		})
	}
}
