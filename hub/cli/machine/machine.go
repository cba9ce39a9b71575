// Package machine has the commands of "kubectl hollow machine": one Machine's story, its log, and its deletion.
package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// NewCommand returns "machine".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "machine", Aliases: []string{"machines"}, Short: "Show a Machine with its Node, events and log, or delete it",
	}, newGet(hub), newLogs(hub), newDelete(hub))
}

// longestReading bounds what a command reads of the hub: an API server that is stopped takes connections and never answers.
const longestReading = 45 * time.Second

// withinTime does something with the hub, and says so if its API server does not answer in time.
func withinTime(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	return cmdutil.Within(ctx, limit, do, func() error {
		return fmt.Errorf("the hub's API server has not answered within %s", formatLimit(limit))
	})
}

// getMachine reads a Machine of the namespace that the user names. One that cannot be decoded is an error.
func getMachine(ctx context.Context, hub *cmdutil.Hub, c client.Client, name string) (*v1alpha1.Machine, error) {
	namespace, err := hub.Namespace()
	if err != nil {
		return nil, err
	}
	machine := &v1alpha1.Machine{}
	return machine, cmdutil.Get(ctx, c, cmdutil.MachineKind, client.ObjectKey{Namespace: namespace, Name: name}, machine)
}
