package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

func newDown(hub *cmdutil.Hub, dir *string) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use: "down", Short: "End a fleet on this machine and remove its files",
		Long: `End a fleet on this machine: all its processes end, and the files that it made are removed with all data. Files that
it did not make stay in its directory and are listed. The directory itself is removed if "local up" made it and nothing is
left in it.

It is no error if there is none. The exit code is 4, and nothing is done, if --dir holds other files but no fleet, or a
fleet of an earlier version, which did not mark what it made.`,
		Example: `  kubectl hollow local down`,
		Args:    cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			return down(command.Context(), hub, *dir, timeout)
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "give up after this time")
	return command
}

func down(ctx context.Context, hub *cmdutil.Hub, dir string, timeout time.Duration) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("finding --dir: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	left, err := localfleet.Down(limited, dir)
	if errors.Is(err, localfleet.ErrNoFleet) {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return cmdutil.Refusal("--dir: %s holds no fleet, but other files: it is left alone", dir)
		}
		hub.Say("No fleet in %s", dir)
		return nil
	}
	if errors.Is(err, localfleet.ErrUnusable) {
		return cmdutil.Refusal("--dir: %w", err)
	}
	if err != nil {
		return err
	}
	hub.Say("Ended the fleet in %s", dir)
	sayLeft(hub.Say, left)
	return nil
}

// sayLeft lists the files that the end of a fleet has left in its directory.
func sayLeft(say func(string, ...any), left []string) {
	if len(left) == 0 {
		return
	}
	say("Left in place, because the fleet did not make it:")
	for _, path := range left {
		say("  %s", path)
	}
}
