package rollout

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

func newRetry(hub *cmdutil.Hub) *cobra.Command {
	return newChangingCommand(hub, &cobra.Command{
		Use: "retry", Short: "Start the current template of a MachineFleet again where it failed, and by the gates of the current spec",
		Long: `Start the current template of a MachineFleet again in the clusters that have failed with it, were not in time, or were rolled
back, each in its wave, as far as there is room. Clusters in which it succeeded are left alone. That sets spec.retriedAt, and unsets
spec.abortedRevision.

From then on only the current spec says when clusters start: groups, approvals, windows and bounds with which the rollout
started hold no longer where they were edited since.

The exit code is 4 if every cluster has the template.`,
		Example: `  kubectl hollow rollout retry machinefleet workers`,
	}, []cmdutil.Kind{cmdutil.FleetKind}, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		return nil, s.retryRollout(ctx, time.Now())
	})
}

func (s *subject) retryRollout(ctx context.Context, now time.Time) error {
	revision, err := fleet.Revision(s.fleet)
	if err != nil {
		return err
	}
	counts := &s.fleet.Status.Clusters
	aborted := s.fleet.Spec.AbortedRevision == revision
	switch {
	case s.fleet.Status.Revision != revision:
		return cmdutil.Refusal("%s cannot be tried again: the hub has not looked at its current template yet", s.fullName())
	case !aborted && counts.Updated >= counts.Selected:
		return cmdutil.Refusal("%s cannot be tried again: no cluster has failed with revision %s or was rolled back from it, and none waits for it", s.fullName(), revision)
	}
	if err := s.changeObject(ctx, func() { setRetriedAt(s.fleet, now) }); err != nil {
		return err
	}
	s.printf("retried: revision %s starts again in %s that failed or were rolled back; %d wait by the spec as it is now", revision,
		plural.Count(int(counts.Failed+counts.RollingBack+counts.RolledBack), "cluster"), counts.Waiting)
	if s.fleet.Spec.Paused {
		s.hub.Note("It is paused: nothing is started until kubectl hollow rollout resume %s", s.commandArguments())
	}
	return nil
}

// setRetriedAt sets spec.retriedAt to another time than it has: the API server stores whole seconds.
func setRetriedAt(of *v1alpha1.MachineFleet, now time.Time) {
	at := metav1.NewTime(now.Truncate(time.Second))
	if last := of.Spec.RetriedAt; last != nil && !at.After(last.Time) {
		at = metav1.NewTime(last.Add(time.Second))
	}
	of.Spec.AbortedRevision, of.Spec.RetriedAt = "", &at
}
