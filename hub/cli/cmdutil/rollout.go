package cmdutil

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/hub/internal/fleet/rollout"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// SayRollout prints the record of a rollout: its course, approvals, and with clusters what happened to it in each cluster, in those that
// failed or have left otherwise.
func SayRollout(hub *Hub, output *Output, r *rollout.Rollout, clusters bool) error {
	hub.Say("Rollout of revision %d (%s), started %s", r.Number, r.Revision, r.Started)
	for _, turn := range r.Turns {
		hub.Say("  %s  %s: %s", turn.At, turn.Reason, Printable(turn.Message))
	}
	sayApprovals(hub, r)
	if r.Superseded != "" {
		hub.Say("  %s  Superseded: the fleet got another template", r.Superseded)
	}
	table := &metav1.Table{ColumnDefinitions: Columns("Cluster", "Group", "Started", "Soaking Since", "Result", "Since", "Failure")}
	names := make([]string, 0, len(r.Clusters))
	for name := range r.Clusters {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c := r.Clusters[name]
		if !clusters && c.Failure == "" && c.Left == "" {
			continue
		}
		result := string(c.Phase)
		if c.Left != "" {
			result += ", left " + c.Left
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			name, cmp.Or(c.Group, "-"), cmp.Or(c.Started, "-"), cmp.Or(c.Soaked, "-"), result, c.Since, cmp.Or(c.Failure, "-"),
		}})
	}
	if len(table.Rows) > 0 {
		if err := output.Table(hub.Out, table); err != nil {
			return err
		}
	}
	if clusters && r.Omitted > 0 {
		hub.Say("%s succeeded, whose record would be too large", plural.Count(r.Omitted, "more cluster"))
	}
	return nil
}

// sayApprovals prints who approved what, and who took it back.
func sayApprovals(hub *Hub, r *rollout.Rollout) {
	for _, approval := range r.Approvals {
		by := Printable(approval.By)
		if approval.Claimed {
			by += ", as the approval claims: the admission policy was not installed when it was created"
		}
		hub.Say("  %s  Approved: group %s, by %s", approval.At, approval.Group, by)
		if approval.TakenBack != "" {
			hub.Say("  %s  Approval withdrawn: group %s, by %s", approval.TakenBack, approval.Group, Printable(approval.By))
		}
	}
}

// Printable is text on one line.
func Printable(text string) string { return strings.Join(strings.Fields(text), " ") }
