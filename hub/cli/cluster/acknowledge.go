package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const acknowledgeLong = `Let a cluster's agent work for this hub after the agent has found that the hub is not the one it knew: its Cluster
was recreated (HubChanged), the hub was restored from a backup (HubRestored), or it has no Machine of the cluster although
the cluster has instances (HubEmpty). The agent stays frozen until you acknowledge the finding.

The command shows what the agent found and asks for confirmation. Afterwards the agent follows this hub: it removes Machines
that are being deleted here, and creates instances for Machines that have none. It deletes nothing because a Machine is
missing here: such instances keep running, and the agent's log names them. Before you acknowledge, check that the namespace
has the Machines that you want, and restore or delete the others.

An acknowledgement covers one finding. When no finding is open, the command refuses with exit code 4.`

const acknowledgeExample = `  # Show what was found, and ask
  kubectl hollow cluster acknowledge c1

  # In a script; waits for the agent's answer
  kubectl hollow cluster acknowledge c1 --yes

  # List the clusters that need an acknowledgement
  kubectl get clusters -o custom-columns=NAME:.metadata.name,FINDING:.status.unacknowledgedHub`

type acknowledgeOptions struct {
	cmdutil.Change
	yes bool
}

func newAcknowledge(hub *cmdutil.Hub) *cobra.Command {
	o := &acknowledgeOptions{}
	command := &cobra.Command{
		Use: "acknowledge NAME", Aliases: []string{"ack"}, Short: "Confirm this hub to an agent that found a different or restored hub",
		Long: acknowledgeLong, Example: acknowledgeExample,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), hub, args[0]) },
	}
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	o.Change = cmdutil.NewChange(command)
	cmdutil.AddWait(command, &o.Wait, true, "the agent has confirmed it", defaultWait, "")
	return command
}

func (o *acknowledgeOptions) run(ctx context.Context, hub *cmdutil.Hub, name string) error {
	if err := o.Output.Check(); err != nil {
		return err
	}
	c, err := o.DryRun.Client(hub)
	if err != nil {
		return err
	}
	cluster, err := getCluster(ctx, c, name)
	if err != nil {
		return err
	}
	finding := cluster.Status.UnacknowledgedHub
	if finding == "" {
		return cmdutil.Refusal("cluster %s needs no acknowledgement: its agent has not reported a different or restored hub", name)
	}
	machines := &v1alpha1.MachineList{}
	if err := c.List(ctx, machines, client.InNamespace(name)); err != nil {
		return fmt.Errorf("counting the Machines of cluster %s: %w", name, err)
	}
	describeFinding(hub, cluster, len(machines.Items))
	if !o.yes && !o.DryRun.Active() {
		question := fmt.Sprintf("Is this the right hub for cluster %s, and should its agent follow it?", name)
		if err := hub.Confirm(question, "acknowledging the hub of cluster "+name, "cluster "+name+" was not acknowledged and stays frozen"); err != nil {
			return err
		}
	}
	user, err := hub.User(ctx, c)
	if err != nil {
		return err
	}
	before := cluster.DeepCopy()
	if err := writeAcknowledgement(ctx, c, cluster, finding, user); err != nil {
		return err
	}
	if _, asText := o.Output.Own(); asText {
		o.DryRun.Telling(hub).Say("cluster.hollowfleet.io/%s acknowledged by %s (finding %s)", name, user, finding)
	}
	if o.Waits() {
		if err := o.awaitAcknowledged(ctx, hub, c, cluster, finding); err != nil {
			return err
		}
	}
	return o.Output.Result(hub, cluster, acknowledgementFacts(before, cluster, finding)...)
}

// describeFinding tells what was found, and what this hub has.
func describeFinding(hub *cmdutil.Hub, cluster *v1alpha1.Cluster, machines int) {
	reason, message := "the agent has not said why", ""
	if frozen := agentFrozen(cluster); frozen != nil {
		reason, message = frozen.Reason, frozen.Message
	}
	hub.Note("Finding %s of the agent of cluster %s: %s\n  %s", cluster.Status.UnacknowledgedHub, cluster.Name, reason, message)
	hub.Note("This hub has %s of the cluster. Once you acknowledge it, the agent follows them; it deletes nothing because a Machine is missing.", plural.Count(machines, "Machine"))
}

// agentFrozen is what the agent says of its being frozen.
func agentFrozen(cluster *v1alpha1.Cluster) *metav1.Condition {
	return meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentFrozenCondition)
}

// writeAcknowledgement writes these annotations alone. If the agent has found something else meanwhile, they are for nothing.
func writeAcknowledgement(ctx context.Context, c client.Client, cluster *v1alpha1.Cluster, finding, user string) error {
	before := cluster.DeepCopy()
	if cluster.Annotations == nil {
		cluster.Annotations = map[string]string{}
	}
	cluster.Annotations[v1alpha1.AcknowledgeHubAnnotation] = finding
	cluster.Annotations[v1alpha1.AcknowledgeHubUserAnnotation] = user
	if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing Cluster %s: %w", cluster.Name, err)
	}
	return nil
}

// awaitAcknowledged waits until the finding is not on the Cluster any more.
func (o *acknowledgeOptions) awaitAcknowledged(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, cluster *v1alpha1.Cluster, finding string) error {
	err := cmdutil.Within(ctx, o.Wait.Timeout, func(ctx context.Context) error {
		return cmdutil.Until(ctx, c, &v1alpha1.ClusterList{}, client.ObjectKeyFromObject(cluster), &v1alpha1.Cluster{},
			func(seen *v1alpha1.Cluster) (bool, error) {
				*cluster = *seen
				return seen.Status.UnacknowledgedHub != finding, nil
			})
	}, func() error {
		return cmdutil.Timeout("the agent of cluster %s has not confirmed it within %s: is it running?", cluster.Name, o.Wait.Timeout)
	})
	if err != nil {
		return err
	}
	if other := cluster.Status.UnacknowledgedHub; other != "" {
		return cmdutil.Refusal("the agent of cluster %s has reported another finding in the meantime (%s): run the command again", cluster.Name, other)
	}
	hub.Note("Its agent works for this hub from now on.")
	return nil
}
