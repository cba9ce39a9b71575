package clusters

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/exit"
	"github.com/hollowfleet/hollowfleet/hub/internal/cli/kube"
)

const listExample = `  # All clusters; -o wide also tells why one is not ready
  kubectl hollow cluster list
  kubectl hollow cluster list -o wide

  # Names of the clusters with a label, for a script
  kubectl hollow cluster list -l stage=test -o name

  # One cluster in full
  kubectl hollow cluster list c1 -o yaml`

func newList(hub *kube.Hub) *cobra.Command {
	var selector string
	command := &cobra.Command{
		Use: "list [NAME ...]", Aliases: []string{"ls", "get"}, Short: "List clusters and how they are",
		Long: `List clusters: whether they are accepted and ready, what freezes them, how many of their machines are ready,
and the versions of Kubernetes and of the agent.`,
		Example: listExample, ValidArgsFunction: hub.CompleteClusters(true),
	}
	command.Flags().StringVarP(&selector, "selector", "l", "", "only clusters with these labels, such as stage=test")
	output := kube.NewTableOutput(command)
	command.RunE = func(command *cobra.Command, names []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		chosen, err := labels.Parse(selector)
		if err != nil {
			return exit.Usage("--selector: %w", err)
		}
		c, err := hub.Client()
		if err != nil {
			return err
		}
		list := &v1alpha1.ClusterList{}
		if err := c.List(command.Context(), list, client.MatchingLabelsSelector{Selector: chosen}); err != nil {
			return fmt.Errorf("listing clusters: %w", err)
		}
		if list.Items, err = pick(list.Items, names); err != nil {
			return err
		}
		_, asTable := output.Own()
		switch {
		case asTable && len(list.Items) == 0:
			hub.Note("No clusters. Let one join with: kubectl hollow cluster join NAME")
			return nil
		case asTable:
			return output.Table(hub.Out, table(list.Items, time.Now()))
		case len(names) == 1:
			return output.Print(hub.Out, &list.Items[0])
		}
		return output.Print(hub.Out, list)
	}
	return command
}

// pick returns the clusters of those names, or all, sorted.
func pick(all []v1alpha1.Cluster, names []string) ([]v1alpha1.Cluster, error) {
	slices.SortFunc(all, func(a, b v1alpha1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	if len(names) == 0 {
		return all, nil
	}
	var picked []v1alpha1.Cluster
	for _, name := range names {
		i := slices.IndexFunc(all, func(cluster v1alpha1.Cluster) bool { return cluster.Name == name })
		if i < 0 {
			return nil, exit.NotFound("cluster %s does not exist", name)
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

// table shows clusters.
func table(clusters []v1alpha1.Cluster, now time.Time) *metav1.Table {
	result := &metav1.Table{ColumnDefinitions: kube.Columns(
		"Name", "Acceptance", "Ready", "Frozen", "Machines", "Kubernetes", "Agent", "Age", "+Connected", "+Skew", "+Failed", "+Message")}
	for i := range clusters {
		cluster := &clusters[i]
		machines, failed := "-", "-"
		if counts := cluster.Status.Machines; counts != nil {
			machines, failed = fmt.Sprintf("%d/%d", counts.Ready, counts.Total), fmt.Sprint(counts.Failed)
		}
		result.Rows = append(result.Rows, metav1.TableRow{Cells: []any{
			cluster.Name, acceptance(cluster),
			state(cluster, v1alpha1.ReadyCondition, metav1.ConditionTrue),
			state(cluster, v1alpha1.FrozenCondition, metav1.ConditionFalse),
			machines, orDash(cluster.Status.KubernetesVersion), orDash(cluster.Status.AgentVersion),
			duration.HumanDuration(now.Sub(cluster.CreationTimestamp.Time)),
			state(cluster, v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue), skew(cluster), failed, message(cluster),
		}})
	}
	return result
}

// skew is how far the clock of a cluster's agent is off; of an agent that is not heard nobody knows.
func skew(cluster *v1alpha1.Cluster) string {
	switch {
	case cluster.Status.ClockSkew != nil:
		return cluster.Status.ClockSkew.Duration.String()
	case meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition):
		return "<2s"
	}
	return "-"
}

func acceptance(cluster *v1alpha1.Cluster) string {
	if cluster.DeletionTimestamp != nil {
		return "Removing"
	}
	if cluster.Spec.Acceptance == v1alpha1.AcceptancePending && cluster.Accepted() {
		return "Auto"
	}
	return orDash(string(cluster.Spec.Acceptance))
}

// state is a condition's status, and its reason unless it is as one hopes.
func state(cluster *v1alpha1.Cluster, kind string, hoped metav1.ConditionStatus) string {
	condition := meta.FindStatusCondition(cluster.Status.Conditions, kind)
	switch {
	case condition == nil:
		return "-"
	case condition.Status == hoped:
		return string(condition.Status)
	}
	return fmt.Sprintf("%s (%s)", condition.Status, condition.Reason)
}

// message says why a cluster is frozen, else why it is not ready.
func message(cluster *v1alpha1.Cluster) string {
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
