package local

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/exit"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/kube"
	"github.com/hollowfleet/hollowfleet/internal/localfleet"
)

func newDown(hub *kube.Hub, dir *string) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use: "down", Short: "End a fleet on this machine and remove its files",
		Long: `End a fleet on this machine: all its processes end, and its directory is removed with all data. It is no error if
there is none.`,
		Example: `  kubectl hollow local down`,
		Args:    kube.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			return down(command.Context(), hub, *dir, timeout)
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "give up after this time")
	return command
}

func down(ctx context.Context, hub *kube.Hub, dir string, timeout time.Duration) error {
	if _, err := localfleet.ReadState(dir); err != nil {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return exit.Refusal("%s holds no fleet, but other files: it is left alone", dir)
		}
		hub.Say("No fleet in %s", dir)
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := localfleet.Down(limited, dir); err != nil {
		return err
	}
	hub.Say("Ended the fleet in %s", dir)
	return nil
}
