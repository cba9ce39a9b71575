package rollout

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
)

func deployment(change func(*v1alpha1.MachineDeployment)) *v1alpha1.MachineDeployment {
	d := &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "workers", Generation: 2},
		Spec:       v1alpha1.MachineDeploymentSpec{Replicas: ptr.To[int32](3)},
		Status: v1alpha1.MachineDeploymentStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3,
		},
	}
	change(d)
	return d
}

func set(d *v1alpha1.MachineDeployment, kind string, status metav1.ConditionStatus, reason string) {
	d.Status.Conditions = append(d.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "a message"})
}

func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.MachineDeployment)
		text   string
		done   bool
		code   int
	}{
		"complete": {func(*v1alpha1.MachineDeployment) {}, "has rolled out: 3 of 3 machines updated, all available", true, 0},
		"none wanted": {func(d *v1alpha1.MachineDeployment) {
			d.Spec.Replicas = ptr.To[int32](0)
			d.Status = v1alpha1.MachineDeploymentStatus{ObservedGeneration: 2}
		}, "has rolled out: 0 of 0 machines updated, all available", true, 0},
		"an older status":   {func(d *v1alpha1.MachineDeployment) { d.Status.ObservedGeneration = 1 }, "waits for the hub to look at its present spec", false, 0},
		"under way":         {func(d *v1alpha1.MachineDeployment) { d.Status.UpdatedReplicas = 1 }, "1 of 3 machines updated", false, 0},
		"old ones go":       {func(d *v1alpha1.MachineDeployment) { d.Status.Replicas = 5 }, "3 of 3 machines updated, 2 old machine(s) still to be deleted", false, 0},
		"not yet available": {func(d *v1alpha1.MachineDeployment) { d.Status.AvailableReplicas = 2 }, "3 of 3 machines updated, 2 available", false, 0},
		"paused":            {func(d *v1alpha1.MachineDeployment) { d.Spec.Paused, d.Status.UpdatedReplicas = true, 1 }, "is paused, 1 of 3 machines updated", false, cmdutil.Refused},
		"frozen": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 1
			set(d, v1alpha1.FrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonAgentSilent)
		}, "is frozen (AgentSilent), 1 of 3 machines updated", false, 0},
		"held up by a peer": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 1
			set(d, v1alpha1.ProgressingCondition, metav1.ConditionTrue, v1alpha1.ReasonAwaitingSurge)
		}, "waits: a message", false, 0},
		"refused": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 0
			set(d, v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.ReasonUnsupportedKubeletVersion)
		}, "is stalled, 0 of 3 machines updated", false, cmdutil.Refused},
		"stalled": {func(d *v1alpha1.MachineDeployment) {
			d.Status.AvailableReplicas = 0
			set(d, v1alpha1.StalledCondition, metav1.ConditionTrue, "MachineClassNotFound")
		}, "is stalled, 3 of 3 machines updated", false, cmdutil.Refused},
		"deadline exceeded": {func(d *v1alpha1.MachineDeployment) {
			d.Status.UpdatedReplicas = 1
			set(d, v1alpha1.ProgressingCondition, metav1.ConditionFalse, v1alpha1.ReasonProgressDeadlineExceeded)
		}, "makes no progress", false, cmdutil.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			progress := progressOf(deployment(test.change))
			g.Expect(progress.text).To(Equal(test.text))
			g.Expect(progress.done).To(Equal(test.done))
			g.Expect(cmdutil.Code(progress.err)).To(Equal(test.code))
		})
	}
}
