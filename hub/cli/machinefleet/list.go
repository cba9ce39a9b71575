package machinefleet

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

func newList(hub *cmdutil.Hub) *cobra.Command {
	return cmdutil.NewListCommand(hub, &cobra.Command{
		Short: "List MachineFleets and the progress of their rollouts",
		Long: `List MachineFleets: whether they are ready, the wave in progress, and how many clusters have the current
revision, have failed, or are waiting because they are frozen or not Ready. -o wide adds the message.`,
		Example: `  kubectl hollow fleet list
  kubectl hollow fleet list -o wide`,
	}, "No MachineFleets. config/samples has an example.", &v1alpha1.MachineFleetList{}, listTable)
}

func listTable(fleets *v1alpha1.MachineFleetList, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns(
		"Name", "Ready", "Wave", "Clusters", "Updated", "Failed", "Held", "Kubelet", "Age", "+Revision", "+Message")}
	for i := range fleets.Items {
		fleet := &fleets.Items[i]
		counts := &fleet.Status.Clusters
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			fleet.Name, formatCondition(fleet.Status.Conditions, v1alpha1.ReadyCondition), FormatWave(fleet),
			counts.Selected, counts.Updated, counts.Failed, counts.Held,
			cmp.Or(fleet.Spec.Template.Spec.Template.Spec.Versions.Kubelet, "-"),
			duration.HumanDuration(now.Sub(fleet.CreationTimestamp.Time)), cmp.Or(fleet.Status.Revision, "-"), fleet.Status.Message,
		}})
	}
	return table
}

// FormatWave is the current one of all.
func FormatWave(fleet *v1alpha1.MachineFleet) string {
	if fleet.Status.Waves == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", fleet.Status.CurrentWave, fleet.Status.Waves)
}

// noCondition stands for a condition that an object does not have.
const noCondition = "-"

// formatCondition is a condition's status, and its reason unless it is True.
func formatCondition(conditions []metav1.Condition, kind string) string {
	found := meta.FindStatusCondition(conditions, kind)
	switch {
	case found == nil:
		return noCondition
	case found.Status == metav1.ConditionTrue:
		return string(found.Status)
	}
	return fmt.Sprintf("%s (%s)", found.Status, found.Reason)
}
