package machinefleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func newStatus(hub *cmdutil.Hub) *cobra.Command {
	var output *cmdutil.Output
	command := &cobra.Command{
		Use: "status NAME", Short: "Show the state of a MachineFleet, cluster by cluster",
		Long: `Show the state of a MachineFleet: its message, the wave in progress, and for each cluster its wave and group, its progress with
the current revision, the kubelet version of its MachineDeployment, its Machines, and what is wrong. Clusters that have left the
fleet, because their labels changed or their Cluster object was deleted, are listed with what remains there.

The exit code is 1 if the fleet is not Ready, if the hub does not work, or if there are Machines whose Cluster object is gone.`,
		Example: `  kubectl hollow fleet status workers`,
		Args:    cmdutil.OneName, ValidArgsFunction: hub.CompleteNames(cmdutil.FleetKind, false),
		RunE: func(command *cobra.Command, args []string) error {
			return showStatus(command.Context(), hub, output, args[0])
		},
	}
	output = cmdutil.NewTableOutput(command)
	return command
}

func showStatus(ctx context.Context, hub *cmdutil.Hub, output *cmdutil.Output, name string) error {
	if err := output.Check(); err != nil {
		return err
	}
	c, err := hub.Client()
	if err != nil {
		return err
	}
	found, err := getFleet(ctx, c, name)
	if err != nil {
		return err
	}
	if _, asTable := output.Own(); !asTable {
		return output.Print(hub.Out, found)
	}
	now := time.Now()
	preview, err := rollout.NewPreview(ctx, c, found, now)
	if err != nil {
		return fmt.Errorf("looking at the clusters of machinefleet %s: %w", name, err)
	}
	ready := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ReadyCondition)
	hub.Say("%-10s%s", "Ready:", formatCondition(found.Status.Conditions, v1alpha1.ReadyCondition))
	hub.Say("%-10s%s, revision %s", "Kubelet:", cmp.Or(found.Spec.Template.Spec.Template.Spec.Versions.Kubelet, "-"), preview.Revision)
	hub.Say("%-10s%s", "Wave:", FormatWave(found))
	hub.Say("%-10s%s", "Message:", cmp.Or(found.Status.Message, "-"))
	for _, field := range preview.Unused {
		hub.Note("%s matches no cluster of the fleet", field)
	}
	if len(preview.Windowless) > 0 {
		hub.Note("Not selected by any of spec.maintenanceWindows, so upgraded at any time: %s", reconciler.ListFew(preview.Windowless))
	}
	departed, err := preview.Departed(ctx, c)
	if err != nil {
		return err
	}
	if len(preview.Members)+len(departed) > 0 {
		hub.Say("")
		if err := output.Table(hub.Out, statusTable(preview, departed, now)); err != nil {
			return err
		}
	}
	if err := sayLast(ctx, hub, output, c, found); err != nil {
		return err
	}
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return fmt.Errorf("machinefleet %s is not ready", name)
	}
	if lost := orphanedIn(departed); len(lost) > 0 {
		return fmt.Errorf("machinefleet %s has Machines without an agent, in the namespaces of clusters that no longer exist: %s", name, reconciler.ListFew(lost))
	}
	return hub.ProveHub(ctx, c, "machinefleet "+name+" was ready")
}

// sayLast prints the record of the newest rollout. A user need not have the right to see it.
func sayLast(ctx context.Context, hub *cmdutil.Hub, output *cmdutil.Output, c client.Client, found *v1alpha1.MachineFleet) error {
	rollouts, err := rollout.Rollouts(ctx, c, found)
	if apierrors.IsForbidden(err) || err == nil && len(rollouts) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	hub.Say("")
	return cmdutil.SayRollout(hub, output, &rollouts[len(rollouts)-1], false)
}

// orphanedIn are the clusters whose object is gone and in which Machines of the fleet are left.
func orphanedIn(departed []rollout.Departed) (names []string) {
	for _, d := range departed {
		if d.Orphaned {
			names = append(names, d.Cluster)
		}
	}
	return names
}

func statusTable(preview *rollout.Preview, departed []rollout.Departed, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Cluster", "Wave", "Group", "State", "Since", "Kubelet", "Machines", "Problem")}
	for _, m := range preview.Members {
		if slices.ContainsFunc(departed, func(d rollout.Departed) bool { return d.Cluster == m.Cluster.Name }) {
			continue // It left in the middle of the rollout.
		}
		kubelet, machines, since := "-", "-", "-"
		if m.Deployment != nil {
			kubelet, machines = DescribeMachines(m.Deployment)
		}
		if !m.Since.IsZero() {
			since = duration.HumanDuration(max(now.Sub(m.Since), 0))
		}
		cmdutil.AddRows(table, m.Problems(), m.Cluster.Name, m.Wave, cmp.Or(m.Group, "-"), FormatState(m), since, kubelet, machines)
	}
	for _, d := range departed {
		kubelet, machines := DescribeMachines(d.Deployment)
		cmdutil.AddRows(table, []string{d.Explain()}, d.Cluster, "-", "-", "Left", "-", kubelet, machines)
	}
	return table
}

// DescribeMachines is what a row has of a cluster's MachineDeployment.
func DescribeMachines(d *v1alpha1.MachineDeployment) (kubelet, machines string) {
	return cmp.Or(d.Spec.Template.Spec.Versions.Kubelet, "-"),
		fmt.Sprintf("%d updated, %d available of %d", d.Status.UpdatedReplicas, d.Status.AvailableReplicas, d.Status.Replicas)
}

// FormatState is a word for how far a cluster is.
func FormatState(m rollout.ClusterPreview) string {
	switch {
	case len(m.Blocked) > 0:
		return "Blocked"
	case m.Held != "" && m.Phase != plan.Succeeded:
		return "Held"
	case m.Phase == plan.ToApply:
		return "Waiting"
	case m.Phase == plan.Succeeded:
		return "Updated"
	}
	return string(m.Phase)
}
