package main

import (
	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

func newUpgradeCommand() *cobra.Command {
	var dataDir, minor string
	command := &cobra.Command{
		Use:   "upgrade --data-dir DIR",
		Short: "Bring the control plane to the next Kubernetes minor",
		Long: `Bring the control plane of a running cluster to the next Kubernetes minor: the API server,
then the controller manager, then the scheduler. Each is ended and started by itself
when all are healthy, so the cluster has no API server for as long as that takes to
start. The data store, the podhost and the nodes continue.

An upgrade skips no minor and does not go back. A cluster of a group, which shares its
process with others, is started in another group instead.`,
		Example: "  simcluster upgrade --data-dir /tmp/c1 --emulated-version 1.36",
		Args:    usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			return controlplane.Upgrade(command.Context(), dataDir, minor)
		},
	}
	addDataDir(command, &dataDir)
	command.Flags().StringVar(&minor, "emulated-version", "", "the Kubernetes minor to emulate, such as 1.36 (default: that of the components)")
	return command
}
