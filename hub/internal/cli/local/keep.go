package local

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
)

const (
	keepName = "keep"
	// dirIDFlag is the ID of the directory that "up" has taken.
	dirIDFlag = "dir-id"
)

// newKeep returns the command that "up" starts in the background: it starts the fleet, keeps it running, and ends
// it with SIGTERM. Its programs end with it.
func newKeep(hub *cmdutil.Hub, dir *string) *cobra.Command {
	options := localfleet.Options{Kept: true, Progress: func(line string) { hub.Say("%s", line) }}
	var pid int
	command := &cobra.Command{
		Use: keepName, Short: "Start a fleet and keep it running", Hidden: true, Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) (err error) {
			options.Dir = *dir
			if options.Owner, err = ownerOf(pid); err != nil {
				return err
			}
			ctx, stop := whileRuns(command.Context(), options.Owner)
			defer stop()
			fleet, err := localfleet.Up(ctx, options)
			if err != nil {
				return err
			}
			fleet.Keep(ctx)
			return errors.Join(ctx.Err(), fleet.Down())
		},
	}
	command.Flags().StringVar(&options.DirID, dirIDFlag, "", "ID of the directory, if it has been taken for this fleet")
	command.Flags().StringVar(&options.BinDir, "bin-dir", "", "directory of the programs")
	command.Flags().StringSliceVar(&options.Clusters, "cluster", nil, "names of the workload clusters")
	addOwner(command, &pid)
	addAgentArgs(command, &options.AgentArgs)
	return command
}
