// Package component is what a child process of simcluster runs: one of the
// control plane's own programs, by its own command, in a process of its own.
package component

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // request metrics of the components' clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version as a metric
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/etcdmember"
)

// exitUsage is the exit code for a component that there is none of.
const exitUsage = 2

// Run runs the named component with its own flags and returns the exit code of
// the process. Only the wanted component's command is made: making one sets
// process-wide feature gates and flags.
func Run(name string, args []string, stderr io.Writer) int {
	var command *cobra.Command
	switch name {
	case "etcd":
		if err := etcdmember.Run(args, stderr); err != nil {
			fmt.Fprintf(stderr, "etcd: %v\n", err)
			return 1
		}
		return 0
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	default:
		fmt.Fprintf(stderr, "there is no component %q\n", name)
		return exitUsage
	}
	command.SetArgs(args)
	return cli.Run(command)
}
