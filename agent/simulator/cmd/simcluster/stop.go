package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/podhost"
)

// stopDefault is how long stop waits before it kills.
const stopDefault = 30 * time.Second

func newStopCommand() *cobra.Command {
	var dataDir string
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "stop --data-dir DIR",
		Short: "Stop the cluster and wait until it is gone",
		Long: `Stop the cluster that runs on the data directory and wait until it is gone. A
cluster that does not stop in time is killed; the exit code is then 1. If no
cluster is running the exit code is 6.`,
		Example: "  simcluster stop --data-dir /tmp/c1",
		Args:    usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			return controlplane.Shutdown(ctx, dataDir)
		},
	}
	addDataDir(command, &dataDir)
	command.Flags().DurationVar(&timeout, "timeout", stopDefault, "how long to wait before the cluster is killed")
	return command
}

func newDeleteCommand() *cobra.Command {
	var dataDir string
	command := &cobra.Command{
		Use:   "delete --data-dir DIR",
		Short: "Delete a stopped cluster with all its data",
		Long: `Delete a stopped cluster: the files that clusters made in the data directory, what
its podhost left elsewhere, and the directory itself if "start" made it and
nothing else is in it. Other files stay and are listed.

If there is no such directory, or it is empty, nothing is done. If the cluster is
running the exit code is 3. If the directory holds other files, but no cluster of
this version, nothing is done either, and the exit code is 2.`,
		Example: "  simcluster delete --data-dir /tmp/c1",
		Args:    usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			left, err := controlplane.Delete(dataDir, podhost.Clean)
			for _, path := range left {
				fmt.Fprintf(command.OutOrStdout(), "left in place, because no cluster made it: %s\n", path)
			}
			return err
		},
	}
	addDataDir(command, &dataDir)
	return command
}
