// Package machinefleet has the commands of "kubectl hollow fleet".
package machinefleet

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// NewCommand returns "fleet".
func NewCommand(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "fleet", Aliases: []string{"machinefleet", "machinefleets"}, Short: "List MachineFleets and show the state of their clusters",
	}, newList(hub), newStatus(hub), newTree(hub))
}

// getFleet reads a MachineFleet.
func getFleet(ctx context.Context, c client.Client, name string) (*v1alpha1.MachineFleet, error) {
	fleet := &v1alpha1.MachineFleet{}
	return fleet, cmdutil.Get(ctx, c, cmdutil.FleetKind, client.ObjectKey{Name: name}, fleet)
}
