package cluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/joining"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const defaultWait = 2 * time.Minute

// decision is a command that says whether a cluster may join.
type decision struct{ cmdutil.Change }

func (d *decision) addFlags(command *cobra.Command, waitByDefault bool, result string) {
	d.Change = cmdutil.NewChange(command)
	cmdutil.AddWait(command, &d.Wait, waitByDefault, result, defaultWait, "")
}

// writeDecision writes the decision, lets follow continue from there, and tells of the Cluster what the format asks for.
func (d *decision) writeDecision(ctx context.Context, hub *cmdutil.Hub, name string, wanted v1alpha1.Acceptance, done string, follow func(telling *cmdutil.Hub, c client.WithWatch) error) error {
	if err := d.Output.Check(); err != nil {
		return err
	}
	c, err := d.DryRun.Client(hub)
	if err != nil {
		return err
	}
	telling := d.Telling(hub)
	before, after, err := writeAcceptance(ctx, telling, c, name, wanted, done)
	if err != nil {
		return err
	}
	if err := follow(telling, c); err != nil {
		return err
	}
	if format, own := d.Output.Own(); own && format != cmdutil.Wide {
		return nil
	}
	if !d.DryRun.Active() {
		if after, err = getCluster(ctx, c, name); err != nil {
			return err
		}
	}
	return d.Output.Result(hub, after, acceptanceFacts(before, after)...)
}

func newAccept(hub *cmdutil.Hub) *cobra.Command {
	d := &decision{}
	command := &cobra.Command{
		Use: "accept NAME", Short: "Let a cluster join, including one that was denied",
		Long: `Let a cluster join: the hub creates its namespace, signs its agent's certificate and lets the agent work.
A denied cluster gets its access back the same way.`,
		Example: `  # Accept a cluster and wait until its agent works
  kubectl hollow cluster accept c1 --wait`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error {
			ctx, name := command.Context(), args[0]
			return d.writeDecision(ctx, hub, name, v1alpha1.AcceptanceAccepted, "accepted", func(telling *cmdutil.Hub, c client.WithWatch) error {
				if !d.Waits() {
					return nil
				}
				return awaitReady(ctx, telling, c, name, d.Wait.Timeout)
			})
		},
	}
	d.addFlags(command, false, "the cluster is ready")
	return command
}

func newDeny(hub *cmdutil.Hub) *cobra.Command {
	d := &decision{}
	ending := false
	command := &cobra.Command{
		Use: "deny NAME", Short: "Revoke a cluster's access; its machines keep running",
		Long: `Deny a cluster: its agent loses all access to the hub, and its join tokens are deleted. The hub does this within seconds, and
the command waits for it: exit code 0 means that the hub's API server refuses the agent. Exit code 5 means that the cluster
is denied, but the hub has not revoked the access yet; it does so as soon as it runs.

Nothing else is deleted: the cluster's namespace, Machines, Nodes and what runs on them stay unchanged and frozen until the
cluster is accepted again or its objects are deleted.

The agent ends its own open watches. A client with a stolen credential would not, and an API server checks access only when
a watch starts. --end-watches ends those watches too, by changing the CustomResourceDefinitions and changing them back. That
ends all watches of these kinds: the hub and all agents list them again. You need the right to change
CustomResourceDefinitions.`,
		Example: `  kubectl hollow cluster deny c1

  # The credential of its agent may have been stolen
  kubectl hollow cluster deny c1 --end-watches`,
		Args: cmdutil.OneName, ValidArgsFunction: hub.CompleteClusters(false),
		RunE: func(command *cobra.Command, args []string) error {
			if ending && !d.Wait.Enabled {
				return cmdutil.Usage("--end-watches and --wait=false: watches can be ended only once the access is revoked, so the command must wait")
			}
			ctx, name := command.Context(), args[0]
			return d.writeDecision(ctx, hub, name, v1alpha1.AcceptanceDenied, "denied", func(telling *cmdutil.Hub, c client.WithWatch) error {
				if err := deleteTokens(ctx, telling, c, name); err != nil || !d.Waits() {
					return err
				}
				if err := awaitNoRights(ctx, c, name, d.Wait.Timeout); err != nil {
					return err
				}
				telling.Say("its agent has no access any more")
				if !ending {
					return nil
				}
				return endWatches(ctx, telling, c, d.Wait.Timeout)
			})
		},
	}
	command.Flags().BoolVar(&ending, "end-watches", false, "also terminate all open watches, for every client; for a stolen credential")
	d.addFlags(command, true, "the hub has revoked the cluster's access")
	return command
}

// writeAcceptance writes the user's word on a cluster, and returns the cluster as it was before and as it is now.
func writeAcceptance(ctx context.Context, hub *cmdutil.Hub, c client.Client, name string, wanted v1alpha1.Acceptance, done string) (before, after *v1alpha1.Cluster, err error) {
	after, err = getCluster(ctx, c, name)
	if err != nil {
		return nil, nil, err
	}
	before = after.DeepCopy()
	switch {
	case after.DeletionTimestamp != nil:
		return nil, nil, cmdutil.Refusal("cluster %s is being removed", name)
	case after.Spec.Acceptance == wanted:
		hub.Say("cluster.hollowfleet.io/%s was %s already", name, done)
		return before, after, nil
	}
	after.Spec.Acceptance = wanted
	if err := c.Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return nil, nil, fmt.Errorf("changing Cluster %s: %w", name, err)
	}
	hub.Say("cluster.hollowfleet.io/%s %s", name, done)
	return before, after, nil
}

func deleteTokens(ctx context.Context, hub *cmdutil.Hub, c client.Client, name string) error {
	deleted, err := joining.DeleteTokens(ctx, c, name)
	if deleted > 0 {
		hub.Say("%s deleted", plural.Count(deleted, "join token"))
	}
	return err
}

// awaitReady waits until the cluster is ready, and says what is missing if it does not become so in time.
func awaitReady(ctx context.Context, hub *cmdutil.Hub, c client.WithWatch, name string, timeout time.Duration) error {
	missing := ""
	err := cmdutil.Within(ctx, timeout, func(ctx context.Context) error {
		return cmdutil.Until(ctx, c, &v1alpha1.ClusterList{}, client.ObjectKey{Name: name}, &v1alpha1.Cluster{},
			func(cluster *v1alpha1.Cluster) (bool, error) {
				ready := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ReadyCondition)
				if ready == nil || ready.ObservedGeneration < cluster.Generation {
					return false, nil
				}
				missing = fmt.Sprintf("%s: %s", ready.Reason, ready.Message)
				return ready.Status == metav1.ConditionTrue, nil
			})
	}, func() error {
		return cmdutil.Timeout("cluster %s is not ready after %s (%s)", name, timeout, cmdutil.DescribeStoppedHub(ctx, c, cmp.Or(missing, "the hub has not read it")))
	})
	if err != nil {
		return err
	}
	if err := hub.ProveHub(ctx, c, "cluster "+name+" was ready"); err != nil {
		return err
	}
	hub.Say("cluster.hollowfleet.io/%s is ready", name)
	return nil
}
