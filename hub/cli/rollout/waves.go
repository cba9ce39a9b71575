package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	ocm "open-cluster-management.io/api/cluster/v1alpha1"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/plan"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
)

// printWaves prints the clusters of a fleet in the order in which the revision comes to them, and what stands in its way.
func printWaves(hub *cmdutil.Hub, p *rollout.Preview) error {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Wave", "Group", "Cluster", "Kubelet", "To", "Kubernetes", "Begins", "Problem")}
	members := slices.Clone(p.Members)
	slices.SortStableFunc(members, func(a, b rollout.ClusterPreview) int { return cmp.Compare(a.Wave, b.Wave) })
	for _, m := range members {
		has := "-"
		if m.Deployment != nil {
			has = cmp.Or(m.Deployment.Spec.Template.Spec.Versions.Kubelet, "-")
		}
		cmdutil.AddRows(table, m.Problems(), m.Wave, cmp.Or(m.Group, "-"), m.Cluster.Name, has,
			cmp.Or(m.Kubelet, "-"), cmp.Or(m.Cluster.Status.KubernetesVersion, "-"), describeStart(m))
	}
	var empty []string
	for i, wave := range p.Waves {
		if len(wave.Clusters) == 0 {
			empty = append(empty, fmt.Sprintf("%d (%s)", i+1, cmp.Or(strings.Join(wave.Groups, ", "), "clusters in no group")))
		}
	}
	if len(table.Rows) > 0 {
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, hub.Out); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	if len(empty) > 0 {
		hub.Note("Waves without clusters: %s", strings.Join(empty, ", "))
	}
	return nil
}

// describeStart says when a cluster's turn is.
func describeStart(m rollout.ClusterPreview) string {
	switch {
	case m.Phase == plan.Succeeded:
		return "has it"
	case m.Phase != plan.ToApply:
		return "has started"
	case m.Begins:
		return "at once"
	case len(m.Blocked) > 0:
		return "blocked"
	case m.Held != "":
		return "held"
	case m.Unapproved:
		return "after approval"
	case !m.OpensAt.IsZero():
		return "from " + m.OpensAt.UTC().Format(time.RFC3339)
	}
	return "later"
}

// DescribeTurn says what a cluster waits for that has nothing against it.
func DescribeTurn(m *rollout.ClusterPreview) string {
	switch {
	case m.Begins:
		return "starts now"
	case m.Unapproved:
		return "waits for the approval of group " + m.Group
	case !m.OpensAt.IsZero():
		return "waits for its maintenance window, which opens at " + m.OpensAt.UTC().Format(time.RFC3339)
	}
	return "waits for its turn"
}

// MinSuccessTime is how long a cluster soaks. 0 without a strategy.
func MinSuccessTime(strategy *ocm.RolloutStrategy) time.Duration {
	switch {
	case strategy.All != nil:
		return strategy.All.MinSuccessTime.Duration
	case strategy.Progressive != nil:
		return strategy.Progressive.MinSuccessTime.Duration
	case strategy.ProgressivePerGroup != nil:
		return strategy.ProgressivePerGroup.MinSuccessTime.Duration
	}
	return 0
}
