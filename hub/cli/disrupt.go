package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

// NewDisrupt returns "disrupt".
func NewDisrupt(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.Group(&cobra.Command{
		Use: "disrupt", Short: "Break Nodes on purpose, in many clusters at once",
		Long: `Break Nodes on purpose: not ready, cut off, killed, under pressure, with slow requests. A NodeDisruption says which Nodes fail
and how. Each fault ends on its own, even if the hub or an agent is down.`,
	}, newDisruptCreate(hub), newDisruptList(hub), newDisruptStop(hub), newDisruptPause(hub, true), newDisruptPause(hub, false))
}

func newDisruptList(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.NewListCommand(hub, &cobra.Command{
		Short: "List NodeDisruptions and their progress",
		Long: `List NodeDisruptions: their phase, the verdict of their expectations, in how many clusters they run and have failed, and how
many Nodes are selected, faulted, seen as faulted by their API servers, and recovered. -o wide adds the message.`,
		Example: `  kubectl hollow disrupt list`,
	}, "No NodeDisruptions. Create one with: kubectl hollow disrupt create", &v1alpha1.NodeDisruptionList{}, disruptionTable)
}

func disruptionTable(disruptions *v1alpha1.NodeDisruptionList, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns(
		"Name", "Phase", "Verdict", "Clusters", "Failed", "Selected", "Injected", "Observed", "Recovered", "Age", "+Message")}
	for i := range disruptions.Items {
		one := &disruptions.Items[i]
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
	use, short, did := "resume", "Resume a paused NodeDisruption where it would be without the pause", "resumed"
	if paused {
		use, short, did = "pause", "Pause a NodeDisruption: restore its Nodes; it can be resumed later", "paused"
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
	return disruption, cmdutil.Get(ctx, c, cmdutil.DisruptionKind, client.ObjectKey{Name: name}, disruption)
}
