package rollout

import (
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// refusalOf is the error of an object that says that it cannot continue until a user changes something; nil if it does not say so.
func refusalOf(name string, conditions []metav1.Condition) error {
	stalled := meta.FindStatusCondition(conditions, v1alpha1.StalledCondition)
	if stalled != nil && stalled.Status == metav1.ConditionTrue {
		return cmdutil.Refusal("%s does not roll out: %s: %s", name, stalled.Reason, stalled.Message)
	}
	progressing := meta.FindStatusCondition(conditions, v1alpha1.ProgressingCondition)
	if progressing != nil && progressing.Reason == v1alpha1.ReasonUnsupportedKubeletVersion {
		return cmdutil.Refusal("%s does not roll out: %s", name, progressing.Message)
	}
	return nil
}

// refuseMachineSets explains what to use in place of a command that takes no MachineSets.
func refuseMachineSets(command *cobra.Command, args []string) error {
	_, name, notASet := cmdutil.Object(command, args, cmdutil.SetKind)
	if notASet != nil {
		return nil //nolint:nilerr // It is one of the kinds that the command takes, or is refused by that.
	}
	return cmdutil.Usage("machineset %s: a MachineSet does not roll out: its template applies only to Machines that it creates later. Name the MachineDeployment that owns it, "+
		"which kubectl hollow fleet tree cluster/CLUSTER shows. If it has no owner, delete its Machines: it recreates them from its current template", name)
}

// withReason adds to how a rollout is why the object is not Ready, if it says so.
func (s *subject) withReason(text string) string {
	var conditions []metav1.Condition
	switch {
	case s.fleet != nil:
		conditions = s.fleet.Status.Conditions
	case s.set != nil:
		conditions = s.set.Status.Conditions
	default:
		conditions = s.deployment.Status.Conditions
	}
	ready := meta.FindStatusCondition(conditions, v1alpha1.ReadyCondition)
	if ready == nil || ready.Status == metav1.ConditionTrue || ready.Message == "" || strings.Contains(ready.Message, text) {
		return text
	}
	return text + ": " + ready.Reason + ": " + ready.Message
}

// totalClusters is how many clusters a rollout is about: those that the fleet has, and those that have left it in the middle.
func totalClusters(counts *v1alpha1.MachineFleetClusters) int32 {
	return max(counts.Selected, counts.Waiting+counts.Progressing+counts.Soaking+counts.Updated+counts.Failed+counts.RollingBack+counts.RolledBack)
}
