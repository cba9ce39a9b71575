package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/cmdutil"
)

// mostMachines is how many Machines are shown of those that are worst.
const mostMachines = 10

// NewStatus returns "status".
func NewStatus(hub *cmdutil.Hub) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how the hub and all clusters are, and the worst Machines",
		Long: `Show whether the hub works, how many clusters, MachineDeployments and Machines are as they should be, the clusters that
are not ready, and the ten worst Machines: those that have failed, then those that are not ready, the longest first.

The exit code is 1 when the hub does not work, a cluster is not ready, or a Machine has failed.`,
		Example: `  kubectl hollow status`, Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := hub.Client()
			if err != nil {
				return err
			}
			seen, err := observe(command.Context(), c, time.Now())
			if err != nil {
				return err
			}
			return seen.show(hub)
		},
	}
}

// fleet is all that the status is made of.
type fleet struct {
	now         time.Time
	hub         hubState
	clusters    []v1alpha1.Cluster
	deployments []v1alpha1.MachineDeployment
	machines    []v1alpha1.Machine
}

func observe(ctx context.Context, c client.Client, now time.Time) (*fleet, error) {
	state, err := hubOf(ctx, c, now)
	if err != nil {
		return nil, err
	}
	clusters, deployments, machines := &v1alpha1.ClusterList{}, &v1alpha1.MachineDeploymentList{}, &v1alpha1.MachineList{}
	for what, list := range map[string]client.ObjectList{"clusters": clusters, "machinedeployments": deployments, "machines": machines} {
		if err := c.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing %s: %w", what, err)
		}
	}
	return &fleet{now: now, hub: state, clusters: clusters.Items, deployments: deployments.Items, machines: machines.Items}, nil
}

// show prints the fleet. The error counts what is wrong.
func (f *fleet) show(hub *cmdutil.Hub) error {
	summary := f.summarize()
	for _, line := range summary.lines {
		hub.Say("%s", line)
	}
	for _, table := range []*metav1.Table{summary.clusters, summary.machines} {
		if len(table.Rows) == 0 {
			continue
		}
		hub.Say("")
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, hub.Out); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	if len(summary.problems) > 0 {
		return fmt.Errorf("not all is well: %s", strings.Join(summary.problems, "; "))
	}
	return nil
}
