package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const acknowledgeLong = `Let a cluster's agent work for this hub, after it found the hub to be another than the one that it knew: its Cluster
was recreated (HubChanged), it was restored from a backup (HubRestored), or it has no Machine any more although the
cluster has instances of some (HubEmpty). Until then the agent is frozen.

The command shows what the agent found and asks. Then the agent goes by what the hub says: Machines that are being
deleted here are taken apart, Machines that have no instance get one. Nothing is deleted because its Machine is
missing here: such instances run on, and the agent's log names them. So look first whether the Machines of the
namespace are those that you want, and restore or delete what is not as it should be; the cluster stays frozen until
you acknowledge.

What is acknowledged is this one finding. When no finding waits, the command refuses with exit code 4.`

const acknowledgeExample = `  # Show what was found, and ask
  kubectl hollow cluster acknowledge c1

  # In a script; the agent's answer is waited for
  kubectl hollow cluster acknowledge c1 --yes

  # Which clusters wait for an acknowledgement
  kubectl get clusters -o custom-columns=NAME:.metadata.name,FINDING:.status.unacknowledgedHub`

type acknowledgeOptions struct {
	yes, wait bool
	timeout   time.Duration
	output    *cmdutil.Output
	dryRun    *cmdutil.DryRun
}

func newAcknowledge(hub *cmdutil.Hub) *cobra.Command {
	o := &acknowledgeOptions{}
	command := &cobra.Command{
		Use: "acknowledge NAME", Aliases: []string{"ack"}, Short: "Let a cluster's agent work for a hub that it found to be another one",
		Long: acknowledgeLong, Example: acknowledgeExample,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), hub, args[0]) },
	}
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	command.Flags().BoolVar(&o.wait, "wait", true, "wait until the agent has taken notice")
	command.Flags().DurationVar(&o.timeout, "timeout", defaultWait, "longest time to wait")
	o.output, o.dryRun = cmdutil.NewOutput(command), cmdutil.NewDryRun(command)
	return command
}

func (o *acknowledgeOptions) run(ctx context.Context, hub *cmdutil.Hub, name string) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	c, err := o.dryRun.Client(hub)
	if err != nil {
		return err
	}
	cluster, err := getCluster(ctx, c, name)
	if err != nil {
		return err
	}
	finding := cluster.Status.UnacknowledgedHub
	if finding == "" {
		return cmdutil.Refusal("cluster %s waits for no acknowledgement: its agent has found nothing strange about this hub", name)
	}
	machines := &v1alpha1.MachineList{}
	if err := c.List(ctx, machines, client.InNamespace(name)); err != nil {
		return fmt.Errorf("counting the Machines of cluster %s: %w", name, err)
	}
	describeFinding(hub, cluster, len(machines.Items))
	if !o.yes && !o.dryRun.Active() {
		question := fmt.Sprintf("Is this the right hub for cluster %s, and may its agent go by what it says?", name)
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
	if _, asText := o.output.Own(); asText {
		o.dryRun.Telling(hub).Say("cluster.hollowfleet.io/%s acknowledged by %s (finding %s)", name, user, finding)
	}
	if o.wait && !o.dryRun.Active() {
		if err := o.awaitAcknowledged(ctx, hub, c, cluster, finding); err != nil {
			return err
		}
	}
	return o.output.Result(hub, cluster, acknowledgementFacts(before, cluster, finding)...)
}

// describeFinding tells what was found, and what this hub has.
func describeFinding(hub *cmdutil.Hub, cluster *v1alpha1.Cluster, machines int) {
	reason, message := "the agent has not said why", ""
	if frozen := agentFrozen(cluster); frozen != nil {
		reason, message = frozen.Reason, frozen.Message
	}
	hub.Note("Finding %s of the agent of cluster %s: %s\n  %s", cluster.Status.UnacknowledgedHub, cluster.Name, reason, message)
	hub.Note("This hub has %s of the cluster. Once it is acknowledged, the agent goes by them; it deletes nothing because a Machine is missing.", plural.Count(machines, "Machine"))
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
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err := cmdutil.Until(limited, c, &v1alpha1.ClusterList{}, client.ObjectKeyFromObject(cluster), &v1alpha1.Cluster{},
		func(seen *v1alpha1.Cluster) (bool, error) {
			*cluster = *seen
			return seen.Status.UnacknowledgedHub != finding, nil
		})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return cmdutil.Timeout("the agent of cluster %s has not taken notice within %s: is it running?", cluster.Name, o.timeout)
	}
	if err != nil {
		return err
	}
	if other := cluster.Status.UnacknowledgedHub; other != "" {
		return cmdutil.Refusal("the agent of cluster %s has found something else meanwhile (finding %s): look again", cluster.Name, other)
	}
	hub.Note("Its agent works for this hub from now on.")
	return nil
}
