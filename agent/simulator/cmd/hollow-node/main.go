// Command hollow-node is one hollow kubelet: it registers a real Node and pretends to run its pods.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	contract "github.com/hollowfleet/hollowfleet/apis/hollownode"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/hollownode"
	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/kubeletversion"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := newCommand().ExecuteContext(ctx)
	klog.Flush()
	// A kubelet's goroutines do not end; the process does.
	if err != nil {
		fmt.Fprintln(os.Stderr, "hollow-node:", err)
	}
	os.Exit(exitCode(err))
}

// runError is an error of the running node, which no other command line could avoid.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, &runError{}) && !errors.Is(err, hollownode.ErrConfiguration):
		return exitFailure
	default:
		return exitUsage
	}
}

func newCommand() *cobra.Command {
	options := hollownode.Options{KillProcess: true}
	cmd := &cobra.Command{
		Use:   "hollow-node --config-dir DIR --state-dir DIR",
		Short: "One hollow kubelet: a real Node whose pods only seem to run",
		Long: `hollow-node joins a cluster as one Node. It is the kubelet's own code around a
container runtime that runs nothing, so it needs no privileges.

DIR of --config-dir has ` + contract.ConfigFileName + ` (a HollowNodeConfiguration) and ` + contract.BootstrapKubeconfigFileName + `,
whose credential must be allowed to create certificate signing requests.

Exit codes: 0 ended by SIGTERM or SIGINT, 2 bad usage or bad configuration,
137 ended by a disruption, 1 any other failure.`,
		Example: `  hollow-node --config-dir /etc/hollow-node --state-dir /var/run/hollow-node \
    --bind-address "$POD_IP"`,
		Args:          cobra.NoArgs,
		Version:       kubeletversion.BuiltIn(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := hollownode.Run(cmd.Context(), options); err != nil {
				return runError{err}
			}
			return nil
		},
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	addFlags(cmd.Flags(), &options)
	addVerbosity(cmd)
	cmd.AddCommand(newPackCommand())
	cmd.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version of the kubelet code inside",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), kubeletversion.BuiltIn())
		},
	})
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

// addFlags adds what describes one node.
func addFlags(flags *pflag.FlagSet, options *hollownode.Options) {
	flags.StringVar(&options.ConfigDir, "config-dir", "", "directory with the configuration and the bootstrap kubeconfig (required)")
	flags.StringVar(&options.StateDir, "state-dir", "", "directory for key, certificate and everything else that is written (required)")
	flags.StringVar(&options.BindAddress, "bind-address", "0.0.0.0", "IP address to serve health and the kubelet's API on; unless it is 0.0.0.0 or ::, also the Node's internal address")
	flags.IntVar(&options.HealthPort, "health-port", contract.HealthPort, "port of /healthz and /readyz")
	flags.IntVar(&options.KubeletPort, "kubelet-port", contract.KubeletPort, "port of the kubelet's API, if the configuration wants it; 0 lets the kernel choose")
	flags.StringVar(&options.DisruptionsFile, "disruptions-file", "", "file with the plan of what goes wrong on the node; it need not be there, and is followed")
	flags.BoolVar(&options.Profiling, "profiling", false, "serve /debug/pprof/ on the health port")
	_ = flags.MarkHidden("profiling")
}

// addVerbosity adds klog's -v and none of its other flags.
func addVerbosity(cmd *cobra.Command) {
	all := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(all)
	cmd.Flags().AddGoFlag(all.Lookup("v"))
	cmd.Flags().Lookup("v").Usage = "how much to log: 0 little, 2 every pod, 4 every step"
}
