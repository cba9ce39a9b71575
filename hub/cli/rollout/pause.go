package rollout

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

func newPause(hub *cmdutil.Hub) *cobra.Command {
	return newChangingCommand(hub, &cobra.Command{
		Use: "pause", Short: "Pause a rollout",
		Long: `Pause a rollout.

While a MachineDeployment is paused, template changes do not replace Machines. Scaling continues, and Machines that fail or are
lost are replaced. While a MachineFleet is paused, no MachineDeployment is changed; clusters in which the rollout has started
finish it. So it is with a SimulatedClusterSet, whose control planes get another version.`,
		Example: `  kubectl hollow rollout pause machinefleet workers
  kubectl hollow rollout pause machinedeployment workers -n c1`,
	}, all, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		return nil, s.setPaused(ctx, true, "paused", "is paused already")
	})
}

func newResume(hub *cmdutil.Hub) *cobra.Command {
	return newChangingCommand(hub, &cobra.Command{
		Use: "resume", Short: "Resume a paused rollout",
		Example: `  kubectl hollow rollout resume machinefleet workers
  kubectl hollow rollout resume machinedeployment workers -n c1`,
	}, all, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		return nil, s.setPaused(ctx, false, "resumed", "is not paused")
	})
}

func (s *subject) setPaused(ctx context.Context, paused bool, done, already string) error {
	field := s.pausedField()
	if *field == paused {
		s.printf("%s", already)
		return nil
	}
	if err := s.changeObject(ctx, func() { *field = paused }); err != nil {
		return err
	}
	s.printf("%s", done)
	return nil
}

// pausedField is the object's field of that name.
func (s *subject) pausedField() *bool {
	switch {
	case s.fleet != nil:
		return &s.fleet.Spec.Paused
	case s.set != nil:
		return &s.set.Spec.Rollout.Paused
	}
	return &s.deployment.Spec.Paused
}
