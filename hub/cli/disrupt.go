package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// NewDisrupt returns "disrupt".
func NewDisrupt(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "disrupt", Short: "Let Nodes fail, in many clusters at once",
		Long: `Let Nodes fail on purpose: not ready, cut off, killed, under pressure, with slow requests. A NodeDisruption says which and how;
whatever happens to hub and agents, each fault ends by itself.`,
	}, newDisruptCreate(hub), newDisruptList(hub), newDisruptStop(hub), newDisruptPause(hub, true), newDisruptPause(hub, false))
}

func newDisruptList(hub *cmdutil.Hub) *cobra.Command {
	var list *cmdutil.List
	command := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List NodeDisruptions and how far they are",
		Long: `List NodeDisruptions: how far they are, the verdict of their expectations, in how many clusters they are and have failed, and how
many Nodes are hit, fail, are seen to fail by their API servers, and have recovered. -o wide adds the message.`,
		Example: `  kubectl hollow disrupt list`, Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			found := &v1alpha1.NodeDisruptionList{}
			return list.Run(command.Context(), hub, found, func() *metav1.Table { return disruptionTable(found.Items, time.Now()) })
		},
	}
	list = cmdutil.NewList(command, "No NodeDisruptions. kubectl hollow disrupt create makes one.")
	return command
}

func disruptionTable(disruptions []v1alpha1.NodeDisruption, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns(
		"Name", "Phase", "Verdict", "Clusters", "Failed", "Selected", "Injected", "Observed", "Recovered", "Age", "+Message")}
	for i := range disruptions {
		one := &disruptions[i]
		s := &one.Status
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			one.Name, cmp.Or(string(s.Phase), "-"), cmp.Or(string(s.Verdict), "-"), s.Clusters, s.Failed, s.Selected, s.Injected, s.Observed, s.Recovered,
			duration.HumanDuration(now.Sub(one.CreationTimestamp.Time)), s.Message,
		}})
	}
	return table
}

// newDisruptPause returns "pause" or "resume".
func newDisruptPause(hub *cmdutil.Hub, paused bool) *cobra.Command {
	var dryRun *cmdutil.DryRun
	use, short, did := "resume", "Let a paused NodeDisruption continue where it would be without the pause", "resumed"
	if paused {
		use, short, did = "pause", "Restore the Nodes of a NodeDisruption, which can continue later", "paused"
	}
	command := &cobra.Command{
		Use: use + " NAME", Short: short, Long: short + ".",
		Example: "  kubectl hollow disrupt " + use + " outage", Args: cmdutil.OneName,
		RunE: func(command *cobra.Command, args []string) error {
			c, err := dryRun.Client(hub)
			if err != nil {
				return err
			}
			disruption, err := getDisruption(command.Context(), c, args[0])
			if err != nil {
				return err
			}
			patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused))
			if err := c.Patch(command.Context(), disruption, patch); err != nil {
				return fmt.Errorf("changing the disruption: %w", err)
			}
			dryRun.Telling(hub).Say("nodedisruption.hollowfleet.io/%s %s", args[0], did)
			return nil
		},
	}
	dryRun = cmdutil.NewDryRun(command)
	return command
}

func getDisruption(ctx context.Context, c client.Client, name string) (*v1alpha1.NodeDisruption, error) {
	disruption := &v1alpha1.NodeDisruption{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, disruption)
	if apierrors.IsNotFound(err) {
		return nil, cmdutil.NotFound("nodedisruption %s does not exist: see kubectl hollow disrupt list", name)
	}
	if err != nil {
		return nil, fmt.Errorf("getting the disruption: %w", err)
	}
	return disruption, nil
}
