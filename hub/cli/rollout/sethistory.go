package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/hub/internal/simulatedclusterset/waves"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// noWayBack is the rule that every command names which would have to lower the version of a control plane.
const noWayBack = "a control plane cannot go back to an earlier minor, because an earlier API server may not read what a later one has stored"

// abortSet has the version of a set started in no further cluster. What has it keeps it.
func (s *subject) abortSet(ctx context.Context, rollback string) error {
	spec, status := &s.set.Spec.Rollout, &s.set.Status.Rollout
	if rollback != "" && rollback != rollbackNone {
		return cmdutil.Refusal("%s cannot be rolled back: --rollback %s: %s: leave --rollback out to abort the rollout for the clusters that do not have the version yet",
			s.fullName(), rollback, noWayBack)
	}
	if revision := waves.RevisionOf(s.set); spec.AbortedRevision == revision {
		s.printf("is aborted already, at %s", revision)
		return nil
	}
	if s.set.Status.ObservedGeneration != s.set.Generation || status.Rollout == 0 {
		return cmdutil.Refusal("%s cannot be aborted: the hub has not observed its current spec yet", s.fullName())
	}
	counts := &status.Clusters
	if counts.Updated >= counts.Selected {
		return cmdutil.Refusal("%s cannot be aborted: every cluster has %s, and %s", s.fullName(), status.Revision, noWayBack)
	}
	if err := s.changeObject(ctx, func() { spec.AbortedRevision = status.Revision }); err != nil {
		return err
	}
	underWay := counts.Progressing + counts.Soaking
	s.printf("aborted at %s: %d of %s have it and keep it, %d in progress finish, %d stay as they are", status.Revision,
		counts.Updated, plural.Count(int(counts.Selected), "cluster"), underWay, counts.Selected-counts.Updated-underWay)
	s.hub.Note("Clusters that are created from now on still get %s: set spec.template.spec.versions.controlPlane to what they are to have", status.Revision)
	return nil
}

// refuseUndoOfSet says why a set is not rolled back, and what helps.
func (s *subject) refuseUndoOfSet() error {
	return cmdutil.Refusal("%s cannot be rolled back: %s. To leave the other clusters as they are: kubectl hollow rollout abort %s. "+
		"To have a cluster with the earlier version: set spec.template.spec.versions.controlPlane to it, and delete the SimulatedCluster, which is then created again",
		s.fullName(), noWayBack, s.commandArguments())
}

// setHistory shows the rollouts that the status of a set has, or one of them with its clusters.
func (s *subject) setHistory(ctx context.Context, output *cmdutil.Output, number int64) error {
	history := s.set.Status.Rollout.History
	if number > 0 {
		at := slices.IndexFunc(history, func(r v1alpha1.SimulatedClusterSetRolloutRecord) bool { return r.Rollout == number })
		if at < 0 {
			return cmdutil.NotFound("%s has no rollout %d (any more); it has %s", s.fullName(), number, cmp.Or(rolloutNumbers(history), "none"))
		}
		history = history[at : at+1]
	}
	if _, asTable := output.Own(); !asTable {
		return output.Print(s.hub.Out, s.set)
	}
	if len(history) == 0 {
		s.printf("has no rollout yet: its clusters have the version that they were created with")
		return nil
	}
	if err := output.Table(s.hub.Out, rolloutsTable(history, &s.set.Status.Rollout, time.Now())); err != nil || number == 0 {
		return err
	}
	for _, approval := range history[0].Approvals {
		s.hub.Say("Approved: group %s", cmdutil.Printable(approval))
	}
	return s.showMembers(ctx, output, history[0].Revision)
}

func rolloutNumbers(history []v1alpha1.SimulatedClusterSetRolloutRecord) string {
	var list []string
	for i := range history {
		list = append(list, fmt.Sprint(history[i].Rollout))
	}
	return strings.Join(list, ", ")
}

// rolloutsTable has a row for each rollout that is kept.
func rolloutsTable(history []v1alpha1.SimulatedClusterSetRolloutRecord, status *v1alpha1.SimulatedClusterSetRolloutStatus, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Revision", "Current", "Control Plane", "Updated", "Failed", "Result", "Age", "Took", "+Approvals")}
	for i := range history {
		r := &history[i]
		mark, took := "", "-"
		if r.Rollout == status.Rollout {
			mark = "*"
		}
		if r.CompletedAt != nil {
			took = duration.HumanDuration(r.CompletedAt.Sub(r.StartedAt.Time))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			r.Rollout, mark, r.Revision, r.Updated, r.Failed, cmp.Or(r.Result, "-"), duration.HumanDuration(now.Sub(r.StartedAt.Time)), took,
			cmp.Or(cmdutil.Printable(strings.Join(r.Approvals, ", ")), "-"),
		}})
	}
	return table
}

// showMembers prints how far the clusters are whose last rollout was of a version. Each remembers its last one.
func (s *subject) showMembers(ctx context.Context, output *cmdutil.Output, revision string) error {
	list := &v1alpha1.SimulatedClusterList{}
	if err := s.client.List(ctx, list, client.MatchingLabels{v1alpha1.SimulatedClusterSetNameLabel: s.set.Name}); err != nil {
		return fmt.Errorf("listing the simulated clusters of %s: %w", s.fullName(), err)
	}
	table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("Cluster", "Group", "Result", "Since", "Runs")}
	for i := range list.Items {
		one := &list.Items[i]
		record := rollout.RecordOn(s.set, one)
		if record == nil || record.Revision != revision || !metav1.IsControlledBy(one, s.set) {
			continue
		}
		runs := ""
		if one.Status.Versions != nil {
			runs = one.Status.Versions.ControlPlane
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			one.Name, cmp.Or(record.Group, "-"), cmp.Or(string(record.Phase), "-"), record.PlannedRecord().Since.UTC().Format(time.RFC3339), cmp.Or(runs, "-"),
		}})
	}
	if len(table.Rows) == 0 {
		return nil
	}
	return output.Table(s.hub.Out, table)
}
