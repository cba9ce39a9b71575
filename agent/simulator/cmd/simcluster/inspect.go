package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/controlplane"
)

func newStatusCommand() *cobra.Command {
	var dataDir, output string
	command := &cobra.Command{
		Use:   "status --data-dir DIR",
		Short: "Show whether the cluster and its components are healthy",
		Long: `Show whether the cluster that runs on the data directory is healthy, asking each
component now. The exit code is 0 if all is healthy, 7 if not, and 6 if no
cluster is running.`,
		Example: "  simcluster status --data-dir /tmp/c1\n  simcluster status --data-dir /tmp/c1 -o json",
		Args:    usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return usageError(fmt.Errorf("--output=%q: only json is possible", output))
			}
			status, err := controlplane.FetchStatus(command.Context(), dataDir)
			if err != nil {
				return err
			}
			if err := printStatus(command.OutOrStdout(), status, output); err != nil {
				return err
			}
			if !status.Healthy {
				return errUnhealthy
			}
			return nil
		},
	}
	addDataDir(command, &dataDir)
	command.Flags().StringVarP(&output, "output", "o", "", "json for the complete status")
	return command
}

func printStatus(writer io.Writer, status controlplane.Status, output string) error {
	if output == "json" {
		encoder := json.NewEncoder(writer)
		encoder.SetIndent("", "  ")
		return encoder.Encode(status)
	}
	fmt.Fprintf(writer, "cluster %s  %s  %s  supervisor %d\n", status.Name, status.Server, status.Version, status.SupervisorPID)
	table := tabwriter.NewWriter(writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tHEALTHY\tSTATE\tPID\tRESTARTS\tMESSAGE")
	for _, name := range slices.Sorted(maps.Keys(status.Components)) {
		component := status.Components[name]
		pid := "-"
		if component.PID != 0 {
			pid = strconv.Itoa(component.PID)
		}
		fmt.Fprintf(table, "%s\t%t\t%s\t%s\t%d\t%s\n", name, component.Healthy, component.State, pid, component.Restarts, component.Message)
	}
	return table.Flush()
}

const componentLong = `Act on one component of a running cluster, to see what others make of its
failure.

The processes of the podhost's pods end when the podhost is stopped or killed,
and start again with it. While it is paused they continue.`

func newComponentCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "component",
		Short: "Stop, start, kill, pause or resume a component",
		Long:  componentLong,
		Example: `  simcluster component kill kube-apiserver --data-dir /tmp/c1
  simcluster component pause etcd --data-dir /tmp/c1`,
		Args: usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	actions := []struct {
		action controlplane.Action
		short  string
	}{
		{controlplane.ActionStop, "End the component; it stays down until it is started"},
		{controlplane.ActionStart, "Start a stopped component and wait until it is healthy"},
		{controlplane.ActionKill, "Kill the component with SIGKILL; it is restarted after a short while"},
		{controlplane.ActionPause, "Suspend the component with SIGSTOP"},
		{controlplane.ActionResume, "Let a paused component continue with SIGCONT"},
	}
	for _, entry := range actions {
		command.AddCommand(newActionCommand(entry.action, entry.short))
	}
	return command
}

func newActionCommand(action controlplane.Action, short string) *cobra.Command {
	var dataDir string
	command := &cobra.Command{
		Use:   string(action) + " COMPONENT --data-dir DIR",
		Short: short,
		Args:  usageArguments(cobra.ExactArgs(1)),
		RunE: func(command *cobra.Command, args []string) error {
			if !slices.Contains(controlplane.AllComponents, args[0]) {
				return usageError(fmt.Errorf("there is no component %q, possible are %s", args[0], strings.Join(controlplane.AllComponents, ", ")))
			}
			status, err := controlplane.Do(command.Context(), dataDir, args[0], action)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s is %s\n", args[0], status.State)
			return err
		},
	}
	addDataDir(command, &dataDir)
	return command
}

func newKubeconfigCommand() *cobra.Command {
	var dataDir, out string
	var user controlplane.User
	command := &cobra.Command{
		Use:   "kubeconfig --data-dir DIR --user NAME",
		Short: "Make a kubeconfig with a client certificate of its own",
		Long: `Make a kubeconfig for any user and groups, with a client certificate signed by the
cluster's authority. The cluster need not run. Certificates can't be revoked:
choose a short --ttl for identities that should end.

The kubeconfig names the API server's present port. A cluster keeps its port; if
it ever has to take another, it rewrites the kubeconfigs in its data directory,
but not those made by this command.`,
		Example: `  simcluster kubeconfig --data-dir /tmp/c1 --user alice --group developers > alice.conf
  simcluster kubeconfig --data-dir /tmp/c1 --user system:node:n1 --group system:nodes --ttl 1h --out n1.conf`,
		Args: usageArguments(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			content, err := controlplane.MintKubeconfig(dataDir, user)
			if err != nil {
				return err
			}
			if out != "" {
				return controlplane.WriteKubeconfig(out, content)
			}
			_, err = command.OutOrStdout().Write(content)
			return err
		},
	}
	addDataDir(command, &dataDir)
	command.Flags().StringVar(&user.Name, "user", "", "the user name, the certificate's common name (needed)")
	command.Flags().StringArrayVar(&user.Groups, "group", nil, "a group of the user (repeatable)")
	command.Flags().DurationVar(&user.TTL, "ttl", controlplane.DefaultUserTTL, "how long the certificate is valid")
	command.Flags().StringVar(&out, "out", "", "the file to write, readable for the owner only (default: standard output)")
	return command
}
