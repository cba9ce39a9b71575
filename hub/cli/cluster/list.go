package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/internal/plural"
	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

const listExample = `  # All clusters; -o wide also shows why one is not ready
  kubectl hollow cluster list
  kubectl hollow cluster list -o wide

  # Show each change as it happens
  kubectl hollow cluster list -w

  # Names of the clusters with a label, for a script
  kubectl hollow cluster list -l stage=test -o name

  # One cluster in full
  kubectl hollow cluster list c1 -o yaml`

type listOptions struct {
	selector string
	watch    bool
	output   *cmdutil.Output
}

func newList(hub *cmdutil.Hub) *cobra.Command {
	o := &listOptions{}
	command := &cobra.Command{
		Use: "list [NAME ...]", Aliases: []string{"ls", "get"}, Short: "List clusters and their state",
		Long: `List clusters: whether they are accepted and ready, why they are frozen, how many of their machines are ready,
and the versions of Kubernetes and of the agent.`,
		Example: listExample, ValidArgsFunction: hub.CompleteClusters(true),
		RunE: func(command *cobra.Command, names []string) error { return o.run(command.Context(), hub, names) },
	}
	command.Flags().StringVarP(&o.selector, "selector", "l", "", "only clusters with these labels, such as stage=test")
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "after the list, show objects again when they change, until interrupted")
	o.output = cmdutil.NewTableOutput(command)
	return command
}

func (o *listOptions) run(ctx context.Context, hub *cmdutil.Hub, names []string) error {
	if err := o.output.Check(); err != nil {
		return err
	}
	chosen, err := labels.Parse(o.selector)
	if err != nil {
		return cmdutil.Usage("--selector: %w", err)
	}
	_, asTable := o.output.Own()
	if o.watch && !asTable {
		return cmdutil.Usage("--watch prints a table: leave -o out, or give -o wide")
	}
	c, err := hub.Client()
	if err != nil {
		return err
	}
	list := &v1alpha1.ClusterList{}
	if err := c.List(ctx, list, client.MatchingLabelsSelector{Selector: chosen}); err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	// Those that exist are shown although others do not.
	var missing error
	list.Items, missing = pickClusters(list.Items, names)
	list.Items = slices.DeleteFunc(list.Items, func(cluster v1alpha1.Cluster) bool {
		err := undecodable.Check(&cluster)
		if err != nil {
			hub.Note("%v", err)
		}
		return err != nil && !asTable // It cannot be printed. A table has its name.
	})
	if o.watch && missing == nil {
		defer hub.NoteStoppedHub(ctx, c)()
		return o.followClusters(ctx, hub, c, chosen, names)
	}
	if len(list.Items) == 0 && missing != nil {
		return missing
	}
	if asTable && len(list.Items) > 0 {
		hub.NoteOldTable(ctx, c)
	}
	return cmp.Or(o.printClusters(hub, list, names), missing)
}

// printClusters prints the clusters that were found.
func (o *listOptions) printClusters(hub *cmdutil.Hub, list *v1alpha1.ClusterList, names []string) error {
	_, asTable := o.output.Own()
	switch {
	case asTable && len(list.Items) == 0:
		hub.Note("No clusters. Let one join with: kubectl hollow cluster join NAME")
		return nil
	case asTable:
		return o.output.Table(hub.Out, newTable(list.Items, time.Now()))
	case len(names) == 1 && len(list.Items) == 1:
		return o.output.Print(hub.Out, &list.Items[0])
	}
	return o.output.Print(hub.Out, list)
}

// pickClusters returns the clusters of those names, or all, sorted. The error names those that do not exist.
func pickClusters(all []v1alpha1.Cluster, names []string) ([]v1alpha1.Cluster, error) {
	slices.SortFunc(all, func(a, b v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	if len(names) == 0 {
		return all, nil
	}
	var known, missing []string
	for i := range all {
		known = append(known, all[i].Name)
	}
	var picked []v1alpha1.Cluster
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			missing = append(missing, "cluster "+name+" does not exist"+cmdutil.DidYouMean(name, known))
			continue
		}
		picked = append(picked, all[i])
	}
	if len(missing) > 0 {
		return picked, cmdutil.NotFound("%s", strings.Join(missing, ", "))
	}
	return picked, nil
}

// newTable shows clusters.
func newTable(clusters []v1alpha1.Cluster, now time.Time) *metav1.Table {
	result := &metav1.Table{ColumnDefinitions: cmdutil.Columns(
		"Name", "Acceptance", "Ready", "Frozen", "Machines", "Kubernetes", "Agent", "Age", "+Connected", "+Skew", "+Failed", "+Orphans", "+Message")}
	for i := range clusters {
		cluster := &clusters[i]
		machines, failed := "-", "-"
		if counts := cluster.Status.Machines; counts != nil {
			machines, failed = fmt.Sprintf("%d/%d", counts.Ready, counts.Total), fmt.Sprint(counts.Failed)
		}
		result.Rows = append(result.Rows, metav1.TableRow{Cells: []any{
			cluster.Name, formatAcceptance(cluster),
			formatCondition(cluster, v1alpha1.ReadyCondition, metav1.ConditionTrue),
			formatCondition(cluster, v1alpha1.FrozenCondition, metav1.ConditionFalse),
			machines, orDash(cluster.Status.KubernetesVersion), orDash(cluster.Status.AgentVersion),
			duration.HumanDuration(now.Sub(cluster.CreationTimestamp.Time)),
			formatCondition(cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue), formatSkew(cluster), failed, formatOrphans(cluster), describeProblem(cluster),
		}})
	}
	return result
}

// formatSkew is how far the clock of a cluster's agent is off; that of a silent agent is not known.
func formatSkew(cluster *v1alpha1.Cluster) string {
	switch {
	case cluster.Status.ClockSkew != nil:
		return cluster.Status.ClockSkew.Duration.String()
	case meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition):
		return "<2s"
	}
	return "-"
}

// formatOrphans counts the instances and the Nodes that have no Machine.
func formatOrphans(cluster *v1alpha1.Cluster) string {
	found := cluster.Status.Orphans
	if found == nil {
		return "0"
	}
	return plural.Count(found.Instances, "instance") + ", " + plural.Count(found.Nodes, "node")
}

func formatAcceptance(cluster *v1alpha1.Cluster) string {
	if cluster.DeletionTimestamp != nil {
		return "Removing"
	}
	if cluster.Spec.Acceptance == v1alpha1.AcceptancePending && cluster.Accepted() {
		return "Auto"
	}
	return orDash(string(cluster.Spec.Acceptance))
}

// formatCondition is a condition's status, and its reason unless it is as one hopes.
func formatCondition(cluster *v1alpha1.Cluster, kind string, hoped metav1.ConditionStatus) string {
	condition := meta.FindStatusCondition(cluster.Status.Conditions, kind)
	switch {
	case condition == nil:
		return "-"
	case condition.Status == hoped:
		return string(condition.Status)
	}
	return fmt.Sprintf("%s (%s)", condition.Status, condition.Reason)
}

// describeProblem says why a cluster is frozen, else why it is not ready.
func describeProblem(cluster *v1alpha1.Cluster) string {
	list := cluster.Status.Conditions
	if frozen := meta.FindStatusCondition(list, v1alpha1.FrozenCondition); frozen != nil && frozen.Status == metav1.ConditionTrue {
		return frozen.Message
	}
	if ready := meta.FindStatusCondition(list, v1alpha1.ReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		return ready.Message
	}
	return ""
}

func orDash(text string) string { return cmp.Or(text, "-") }
