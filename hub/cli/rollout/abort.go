package rollout

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// The values of --rollback.
const rollbackNone, rollbackFailed, rollbackAll = "none", "failed", "all"

// policies are what the values of --rollback mean.
var policies = map[string]v1alpha1.RollbackPolicy{
	rollbackNone: v1alpha1.RollbackNone, rollbackFailed: v1alpha1.RollbackFailed, rollbackAll: v1alpha1.RollbackAll,
}

func newAbort(hub *cmdutil.Hub) *cobra.Command {
	var rollback string
	c := newChangingCommand(hub, &cobra.Command{
		Use: "abort", Short: "Abort the rollout of a MachineFleet or a SimulatedClusterSet, and roll clusters of a fleet back",
		Long: `Abort the rollout of a MachineFleet's current template: it starts in no further cluster, and clusters in which it has started
finish it, unless they are rolled back. --rollback says which clusters get their previous template back: "failed" those that have
failed, "all" every cluster in which the rollout has started. Without the flag the fleet's own policy applies. The command writes
spec.abortedRevision and spec.rollbackPolicy in one request.

For a SimulatedClusterSet the command does the same with the version of the control plane, and spec.rollout.abortedRevision. Clusters
that have the version keep it: a control plane cannot go back, so --rollback is refused.

The exit code is 4 if the template has reached every cluster, or is not being rolled out. "kubectl hollow rollout retry" reverts
the abort; so does another template.`,
		Example: `  kubectl hollow rollout abort machinefleet workers
  kubectl hollow rollout abort machinefleet workers --rollback all`,
	}, waving, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		if s.set != nil {
			return nil, s.abortSet(ctx, rollback)
		}
		return nil, s.abortRollout(ctx, rollback)
	})
	cmdutil.Choice(c, &rollback, "rollback", "for a machinefleet: which clusters get their previous template back; sets spec.rollbackPolicy", rollbackNone, rollbackFailed, rollbackAll)
	return c
}

func (s *subject) abortRollout(ctx context.Context, rollback string) error {
	policy := cmp.Or(s.fleet.Spec.RollbackPolicy, v1alpha1.RollbackNone)
	if rollback != "" {
		policy = policies[rollback]
	}
	revision, err := rollout.Revision(s.fleet)
	if err != nil {
		return err
	}
	if s.fleet.Spec.AbortedRevision == revision && s.fleet.Spec.RollbackPolicy == policy {
		s.printf("is aborted already, at revision %s", revision)
		return nil
	}
	if why := notAbortable(s.fleet, revision); why != "" {
		return cmdutil.Refusal("%s cannot be aborted: %s", s.fullName(), why)
	}
	if err := s.changeObject(ctx, func() { s.fleet.Spec.AbortedRevision, s.fleet.Spec.RollbackPolicy = revision, policy }); err != nil {
		return err
	}
	s.printf("aborted at revision %s, with rollbackPolicy %s", revision, policy)
	if s.fleet.Spec.Paused && policy != v1alpha1.RollbackNone {
		s.hub.Note("It is paused: nothing is rolled back until kubectl hollow rollout resume %s", s.commandArguments())
	}
	return nil
}

// notAbortable says why there is no rollout to abort; empty if there is one.
func notAbortable(of *v1alpha1.MachineFleet, revision string) string {
	status, counts := &of.Status, &of.Status.Clusters
	progressing := meta.FindStatusCondition(status.Conditions, v1alpha1.ProgressingCondition)
	switch {
	case status.Revision != revision || progressing == nil:
		return "the hub has not observed its current template yet: try again, or set another template"
	case progressing.Reason == v1alpha1.ReasonRolloutComplete:
		return "the rollout of revision " + revision + " is complete: to go back, kubectl hollow rollout undo machinefleet " + of.Name
	case progressing.Reason == v1alpha1.ReasonRolledBack && counts.Updated+counts.Soaking+counts.Progressing+counts.Failed == 0:
		return "revision " + revision + " was rolled back already"
	}
	return ""
}
