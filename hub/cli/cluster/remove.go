package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const removeLong = `Remove a cluster from the fleet: delete its Cluster object and its join tokens, which revokes its agent's access.

Nothing else is deleted. The namespace on the hub keeps its MachineDeployments, MachineSets and Machines, and the workload
cluster keeps its Nodes and what runs on them: no agent acts on them any more. To remove the machines as well, delete them
first, while the agent still works, and wait until they are gone:

  kubectl -n NAME delete machinedeployments,machinesets,machines --all

Afterwards "kubectl delete namespace NAME" removes the rest on the hub. LoadTestRuns keep the namespace too, because the agent
removes what they created in the workload cluster. Before you delete the namespace, delete them, with their results, while the
agent still works, and wait until they are gone:

  kubectl -n NAME delete loadtestruns --all

If Machines or LoadTestRuns are left, their finalizers keep the namespace: see kubectl hollow cluster remove-finalizers.
A cluster that was removed by mistake can join again under the same name. It takes over the Machines of its namespace once
you acknowledge the hub: see kubectl hollow cluster acknowledge.`

func newRemove(hub *cmdutil.Hub) *cobra.Command {
	var change cmdutil.Change
	yes := false
	command := &cobra.Command{
		Use: "remove NAME", Short: "Remove a cluster from the fleet; its machines keep running", Long: removeLong,
		Example: `  # Ask for confirmation first
  kubectl hollow cluster remove c1

  # In a script
  kubectl hollow cluster remove c1 --yes

  # Save its Cluster object
  kubectl hollow cluster remove c1 --yes -o yaml > c1.yaml`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error {
			if err := change.Output.Check(); err != nil {
				return err
			}
			c, err := change.DryRun.Client(hub)
			if err != nil {
				return err
			}
			cluster, err := getCluster(command.Context(), c, args[0])
			if err != nil {
				return err
			}
			machines := &v1alpha1.MachineList{}
			if err := hub.ListKnown(command.Context(), c, machines, client.InNamespace(cluster.Name)); err != nil {
				return fmt.Errorf("counting the Machines of cluster %s: %w", cluster.Name, err)
			}
			total := len(machines.Items)
			if !yes && !change.DryRun.Active() {
				question := fmt.Sprintf("Remove cluster %s? Its agent loses its access; its %s and their Nodes stay.", cluster.Name, plural.Count(total, "Machine"))
				if err := hub.Confirm(question, "removing cluster "+cluster.Name, "cluster "+cluster.Name+" was not removed"); err != nil {
					return err
				}
			}
			if err := removeCluster(command.Context(), change.Telling(hub), c, cluster, total, change.Wait.Timeout, change.Waits()); err != nil {
				return err
			}
			return change.Output.Result(hub, cluster, acceptanceFacts(cluster, cluster)...)
		},
	}
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	change = cmdutil.NewChange(command)
	cmdutil.AddWait(command, &change.Wait, true, "the hub has revoked the agent's access", defaultWait, "")
	return command
}

func removeCluster(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, cluster *v1alpha1.Cluster, machines int, timeout time.Duration, wait bool) error {
	if err := deleteTokens(ctx, hub, c, cluster.Name); err != nil {
		return err
	}
	if err := c.Delete(ctx, cluster, client.Preconditions{UID: &cluster.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Cluster %s: %w", cluster.Name, err)
	}
	if !wait {
		hub.Say("cluster.hollowfleet.io/%s removed", cluster.Name)
		return nil
	}
	err := cmdutil.Within(ctx, timeout, func(ctx context.Context) error {
		return cmdutil.UntilGone(ctx, c, &v1alpha1.ClusterList{}, client.ObjectKeyFromObject(cluster), &v1alpha1.Cluster{})
	}, func() error {
		return cmdutil.Timeout("cluster %s is still being removed after %s, and its agent keeps its access until the hub revokes it: %s", cluster.Name, timeout,
			cmdutil.DescribeStoppedHub(ctx, c, "the hub works, but is slow or has errors: see its log"))
	})
	if err != nil {
		return err
	}
	hub.Say("cluster.hollowfleet.io/%s removed", cluster.Name)
	if machines > 0 {
		hub.Note("%s left in namespace %s, and their Nodes in the workload cluster: see kubectl hollow cluster remove --help", plural.Count(machines, "Machine"), cluster.Name)
	}
	return nil
}
