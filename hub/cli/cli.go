// Package cli is kubectl-hollow: the command line of a fleet.
package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/hollowfleet/hollowfleet/hub/cli/cluster"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/dashboard"
	"github.com/hollowfleet/hollowfleet/hub/cli/loadtest"
	"github.com/hollowfleet/hollowfleet/hub/cli/local"
	"github.com/hollowfleet/hollowfleet/hub/cli/machine"
	"github.com/hollowfleet/hollowfleet/hub/cli/machinefleet"
	"github.com/hollowfleet/hollowfleet/hub/cli/rehearse"
	"github.com/hollowfleet/hollowfleet/hub/cli/rollout"
	"github.com/hollowfleet/hollowfleet/internal/version"
)

const (
	long = `Work with a fleet of Kubernetes clusters and their machines, through the API server of the fleet's hub.

What kubectl does well is left to kubectl: "kubectl get fleet -A" lists every object, "kubectl describe machine NAME"
explains the state of a machine, "kubectl scale machinedeployment NAME" scales.

` + cmdutil.Help

	example = `  # A whole fleet on this machine, to try things out
  kubectl hollow local up

  # Let a workload cluster join, then list all clusters
  kubectl hollow cluster join edge --output-dir .
  kubectl hollow cluster list

  # Roll a kubelet version out over the clusters of a fleet
  kubectl hollow upgrade fleet/workers --kubelet v1.37.1 --wait

  # Stop creating and deleting in a cluster, then resume
  kubectl hollow freeze cluster local-0 --reason "storage maintenance"
  kubectl hollow unfreeze cluster local-0`

	// usageTemplate is cobra's, without the flags of kubectl that every command has: they have a page of their own.
	usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .Aliases}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if and .HasParent .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more about a command.{{else}}
{{end}}
Use "kubectl hollow options" for the flags that every command has.
`
)

// Execute runs the command line and returns its exit code.
func Execute(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	// Libraries log what the command returns as an error anyway.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	out, errOut := cmdutil.NewEscaped(streams.Out), cmdutil.NewEscaped(streams.ErrOut)
	defer out.Close()
	defer errOut.Close()
	streams.Out, streams.ErrOut = out, errOut
	hub := cmdutil.NewHub(streams)
	hub.DescribeKeeper, hub.FindFleet = local.DescribeKeeper, local.FindFleet
	command := newCommand(hub) //nolint:contextcheck // Commands get ctx when they run.
	command.SetArgs(args)
	command.SetIn(streams.In)
	command.SetOut(streams.Out)
	command.SetErr(streams.ErrOut)
	failed, err := command.ExecuteContextC(ctx)
	if err == nil {
		return cmdutil.OK
	}
	if ctx.Err() != nil {
		fmt.Fprintln(streams.ErrOut, "interrupted")
		return cmdutil.Interrupted
	}
	if strings.HasPrefix(failed.CommandPath(), "kubectl hollow local ") {
		hub.DescribeKeeper = nil // They say it of the fleet that they are about.
	}
	err = hub.Explain(err)
	fmt.Fprintln(streams.ErrOut, "error:", err)
	code := cmdutil.Code(err)
	if code == cmdutil.BadUsage {
		fmt.Fprintf(streams.ErrOut, "See '%s --help'.\n", failed.CommandPath())
	}
	return code
}

func newCommand(hub *cmdutil.Hub) *cobra.Command {
	root := cmdutil.Group(&cobra.Command{
		Use: "kubectl-hollow", Short: "Work with a fleet of clusters and their machines", Long: long, Example: example,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl hollow"},
		Version:     version.Here(), SilenceUsage: true, SilenceErrors: true,
	},
		cluster.NewCommand(hub), cluster.NewFreeze(hub), cluster.NewUnfreeze(hub),
		machinefleet.NewCommand(hub), machine.NewCommand(hub), rollout.NewUpgrade(hub), rollout.NewCommand(hub),
		local.NewCommand(hub), NewStatus(hub), dashboard.NewCommand(hub), NewVersion(hub),
		NewDisrupt(hub), loadtest.NewCommand(hub), rehearse.NewCommand(hub), NewSupportBundle(hub),
	)
	root.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cmdutil.AsUsage(err) })
	hub.Flags.AddFlags(root.PersistentFlags())
	root.AddCommand(newOptions(root))
	return root
}

// newOptions shows the flags that every command has.
func newOptions(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "Show the flags that every command has", Args: cmdutil.Args(cobra.NoArgs),
		Run: func(command *cobra.Command, _ []string) {
			fmt.Fprintf(command.OutOrStdout(), "Flags that every command has:\n\n%s", root.PersistentFlags().FlagUsages())
		},
	}
}
