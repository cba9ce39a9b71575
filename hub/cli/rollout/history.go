package rollout

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
)

func newHistory(hub *cmdutil.Hub) *cobra.Command {
	var (
		number int64
		output *cmdutil.Output
	)
	c := newCommand(hub, &cobra.Command{
		Use: "history", Short: "List the revisions that a MachineFleet or a MachineDeployment can be rolled back to, or the rollouts of a SimulatedClusterSet",
		Long: `List the revisions of a MachineFleet or a MachineDeployment: its current and earlier templates. A MachineDeployment keeps
spec.revisionHistoryLimit of them, as MachineSets. A MachineFleet keeps the last ten, and those that a cluster still has, as
ControllerRevisions in the hub's namespace. --revision shows the template, and for a MachineFleet the result of its rollout in each
cluster, including those that have left. -o yaml and -o json print these objects.

For a SimulatedClusterSet the command lists the last ten rollouts of a version of the control plane, from status.rollout.history. It
cannot be rolled back to one. --revision shows that rollout with its approvals, and the clusters that had no other since.`,
		Example: `  kubectl hollow rollout history machinefleet workers
  kubectl hollow rollout history machinedeployment workers -n c1
  kubectl hollow rollout history simulatedclusterset sim

  # The template of one revision
  kubectl hollow rollout history machinedeployment workers -n c1 --revision 2`,
	}, all, hub.Client, func(ctx context.Context, s *subject) error {
		if err := output.Check(); err != nil {
			return err
		}
		switch {
		case s.fleet != nil:
			return s.fleetHistory(ctx, output, number)
		case s.set != nil:
			return s.setHistory(ctx, output, number)
		}
		return s.showHistory(ctx, output, number)
	})
	c.Flags().Int64Var(&number, "revision", 0, "show this revision's template and rollout")
	completeRevisions(hub, c, "revision")
	output = cmdutil.NewTableOutput(c)
	return c
}

func (s *subject) showHistory(ctx context.Context, output *cmdutil.Output, number int64) error {
	revisions, err := s.listRevisions(ctx)
	if err != nil {
		return err
	}
	_, asTable := output.Own()
	if number > 0 {
		chosen, err := s.pickRevision(revisions, number)
		if err != nil {
			return err
		}
		if !asTable {
			return output.Print(s.hub.Out, chosen.set)
		}
		text, err := yaml.Marshal(chosen.userTemplate())
		s.hub.Say("%s", text)
		return err
	}
	if asTable {
		return output.Table(s.hub.Out, historyTable(revisions, s.currentRevision(), time.Now()))
	}
	list := &v1alpha1.MachineSetList{}
	for _, revision := range revisions {
		list.Items = append(list.Items, *revision.set)
	}
	return output.Print(s.hub.Out, list)
}

// pickRevision finds a revision, or lists those that there are.
func (s *subject) pickRevision(revisions []revision, number int64) (revision, error) {
	i := slices.IndexFunc(revisions, func(r revision) bool { return r.number == number })
	if i < 0 {
		return revision{}, cmdutil.NotFound("machinedeployment %s has no revision %d (any more); it has %s",
			s.deployment.Name, number, cmp.Or(listNumbers(revisions), "none"))
	}
	return revisions[i], nil
}

func historyTable(revisions []revision, current int64, now time.Time) *metav1.Table {
	result := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Revision", "Current", "Machines", "Kubelet", "Age", "MachineSet", "+Class")}
	for _, revision := range revisions {
		mark, class := "", "-"
		if revision.number == current {
			mark = "*"
		}
		body := revision.set.Spec.Template.Spec
		if body.ProviderConfig.ValueRef != nil {
			class = body.ProviderConfig.ValueRef.Name
		}
		result.Rows = append(result.Rows, metav1.TableRow{Cells: []any{
			revision.number, mark, revision.set.Status.Replicas, cmp.Or(body.Versions.Kubelet, "-"),
			duration.HumanDuration(now.Sub(revision.set.CreationTimestamp.Time)), revision.set.Name, class,
		}})
	}
	return result
}
