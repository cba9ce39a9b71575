package rollout

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
)

func newPause(hub *cmdutil.Hub) *cobra.Command {
	return changing(hub, &cobra.Command{
		Use: "pause", Short: "Stop a rollout where it is",
		Long: `Stop a rollout where it is: no Machine is replaced because of its template until the rollout is resumed. Scaling
goes on, and Machines that fail or get lost are replaced.`,
		Example: `  kubectl hollow rollout pause machinedeployment workers -n c1`,
	}, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		return nil, s.setPaused(ctx, true, "paused", "is paused already")
	})
}

func newResume(hub *cmdutil.Hub) *cobra.Command {
	return changing(hub, &cobra.Command{
		Use: "resume", Short: "Let a paused rollout go on",
		Example: `  kubectl hollow rollout resume machinedeployment workers -n c1`,
	}, func(ctx context.Context, s *subject) ([]cmdutil.Fact, error) {
		return nil, s.setPaused(ctx, false, "resumed", "is not paused")
	})
}

func (s *subject) setPaused(ctx context.Context, paused bool, done, already string) error {
	if s.deployment.Spec.Paused == paused {
		s.printf("%s", already)
		return nil
	}
	before := s.deployment.DeepCopy()
	s.deployment.Spec.Paused = paused
	if err := s.patch(ctx, before); err != nil {
		return err
	}
	s.printf("%s", done)
	return nil
}
