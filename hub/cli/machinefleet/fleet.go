// Package machinefleet has the commands of "kubectl hollow fleet".
package machinefleet

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	err := c.Get(ctx, client.ObjectKey{Name: name}, fleet)
	if apierrors.IsNotFound(err) {
		return nil, cmdutil.NotFoundObject(cmdutil.FleetKind, name, "")
	}
	if err != nil {
		return nil, fmt.Errorf("reading machinefleet %s: %w", name, err)
	}
	return fleet, nil
}
