package rollout

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

func newRetry(hub *cmdutil.Hub) *cobra.Command {
	return newChangingCommand(hub, &cobra.Command{
		Use: "retry", Short: "Retry the rollout of a MachineFleet where it failed, by the gates of its current spec",
		Long: `Retry the rollout of a MachineFleet's current template in the clusters that have failed, timed out or were rolled back, each in
its wave and within the fleet's bounds. Clusters in which it succeeded are unchanged. The command sets spec.retriedAt, and unsets
spec.abortedRevision.

From then on only the current spec decides when clusters start. If groups, approvals, windows or bounds were edited since the
rollout started, their earlier values no longer apply.

For a SimulatedClusterSet the command does the same with the version of the control plane, and spec.rollout.

The exit code is 4 if every cluster already has the template.`,
		Example: `  kubectl hollow rollout retry machinefleet workers`,
	}, waving, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		if s.set != nil {
			return nil, s.retrySet(ctx, time.Now())
		}
		return nil, s.retryRollout(ctx, time.Now())
	})
}

func (s *subject) retryRollout(ctx context.Context, now time.Time) error {
	revision, err := rollout.Revision(s.fleet)
	if err != nil {
		return err
	}
	counts := &s.fleet.Status.Clusters
	aborted := s.fleet.Spec.AbortedRevision == revision
	switch {
	case s.fleet.Status.Revision != revision:
		return cmdutil.Refusal("%s cannot be retried: the hub has not observed its current template yet", s.fullName())
	case !aborted && counts.Updated >= counts.Selected:
		return cmdutil.Refusal("%s cannot be retried: no cluster has failed with revision %s or was rolled back from it, and none is waiting for it", s.fullName(), revision)
	}
	if err := s.changeObject(ctx, func() { setRetriedAt(s.fleet, now) }); err != nil {
		return err
	}
	s.printf("retried: revision %s starts again in %s that failed or were rolled back; %d are waiting by the current spec", revision,
		plural.Count(int(counts.Failed+counts.RollingBack+counts.RolledBack), "cluster"), counts.Waiting)
	if s.fleet.Spec.Paused {
		s.hub.Note("It is paused: nothing starts until kubectl hollow rollout resume %s", s.commandArguments())
	}
	return nil
}

// setRetriedAt sets spec.retriedAt to another time than it has: the API server stores whole seconds.
func setRetriedAt(of *v1alpha1.MachineFleet, now time.Time) {
	of.Spec.AbortedRevision, of.Spec.RetriedAt = "", timeAfter(of.Spec.RetriedAt, now)
}

// timeAfter is now, or a second after the last time if that is not earlier.
func timeAfter(last *metav1.Time, now time.Time) *metav1.Time {
	at := metav1.NewTime(now.Truncate(time.Second))
	if last != nil && !at.After(last.Time) {
		at = metav1.NewTime(last.Add(time.Second))
	}
	return &at
}
