package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/version"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

const rootLong = `simcluster runs a whole Kubernetes control plane without containers: etcd,
kube-apiserver, kube-controller-manager and kube-scheduler as processes of this
binary, and a podhost, a node that runs pods as local processes.

Everything of a cluster is in its data directory: data, certificates,
kubeconfigs, logs and, while the cluster is ready, ready.json.

Exit codes:
  0  done
  1  failed for another reason than those below
  2  wrong flag or argument
  3  another simcluster runs on the data directory
  4  the API server's port is taken and was asked for by number
  5  the cluster did not become ready
  6  no cluster is running
  7  the cluster runs, but not all of it is healthy`

func newRootCommand() *cobra.Command {
	// Kubernetes' packages put flags of theirs there, which would show up here
	// and do nothing.
	pflag.CommandLine = pflag.NewFlagSet("simcluster", pflag.ContinueOnError)
	root := &cobra.Command{
		Use:           "simcluster",
		Short:         "Run a Kubernetes control plane as local processes",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version.Get().GitVersion,
		Args:          usageArguments(cobra.NoArgs),
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newStartCommand(), newStopCommand(), newDeleteCommand(), newStatusCommand(), newComponentCommand(), newUpgradeCommand(), newGroupCommand(),
		newKubeconfigCommand(), newVersionCommand(),
	)
	return root
}

func usageError(err error) error { return fmt.Errorf("%w: %w", controlplane.ErrInvalid, err) }

// usageArguments makes the check's error one of usage.
func usageArguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return usageError(err)
		}
		return nil
	}
}

func addDataDir(command *cobra.Command, into *string) {
	command.Flags().StringVar(into, "data-dir", "", "the cluster's data directory (needed)")
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the Kubernetes version of the components",
		Args:  usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(command.OutOrStdout(), version.Get().GitVersion)
			return err
		},
	}
}
