package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// mostRows is how many objects of a kind the table shows. JSON has all.
const mostRows = 10

// NewStatus returns "status".
func NewStatus(hub *cmdutil.Hub) *cobra.Command {
	var (
		output cmdutil.DocumentOutput
		watch  bool
	)
	timeout := 30 * time.Second
	command := &cobra.Command{
		Use: "status", Short: "Show whether the hub works, and which objects of the fleet are not healthy",
		Long: `Show whether the hub works, how many objects of each kind are healthy, and which are not: why, since when, and the next
command to run. Problems come first. Rollouts of MachineFleets and SimulatedClusterSets that are not complete are shown with their waves. Up to ten objects of each kind are shown; -o json has all.

An object is healthy only if its controller or agent has reported so for its current spec. It is a problem if it is Stalled,
blocked, frozen, unavailable, failed (including the verdict of a load test or a disruption: delete the object once you have read it),
stale, undecodable, stuck in deletion, in progress for longer than its own spec allows, run by a silent agent, without its Cluster, or
not yet observed. A MachineFleet without progressDeadline is a problem if its rollout has waited for an hour in a cluster whose
Machines are done. An object that is in progress, was paused by a user, or is waiting for an approval, a maintenance window or a
schedule is shown, but is not a problem.

The exit code is 0 if there is no problem; 1 if the hub does not work, an object is a problem, the API server does not serve a kind,
or it did not answer within --timeout; and 4 if no problem was found, but you may not list some kind or read the hub's Lease: whatever
could not be checked is named, and does not count as healthy.

With -n, one namespace is checked, and the Cluster of its name: for users who may read no other. Without it, so is the namespace of the
kubeconfig's context, if it is the only one that you may list Machines in. What is not seen is said.

With --watch, the command continues, also while all is healthy, until it is interrupted (exit code 130) or --timeout, if that is given,
is over; the exit code is then that of the last state. On a terminal it redraws one screen; NO_COLOR is honored. Otherwise it prints the
status again when it changes, with the time, or with -o json one document per line. If the hub's API server does not answer, it shows
since when, and what was known last; if a right is missing, it shows the rest.`,
		Example: `  kubectl hollow status

  # One screen that stays up to date
  kubectl hollow status -w

  # The part that you may read
  kubectl hollow status -n edge-1

  # For a script
  kubectl hollow status -o json | jq -r '.objects[] | select(.state == "Problem") | "\(.kind) \(.namespace)/\(.name): \(.message)"'`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			return runStatus(command, hub, output, watch, timeout)
		},
	}
	output.AddFlag(command)
	command.Flags().DurationVar(&timeout, "timeout", timeout, "longest time to wait for the API server; what it has not answered by then is unknown. With --watch, the time to continue")
	command.Flags().BoolVarP(&watch, "watch", "w", false, "continue to show the status when it changes, until interrupted")
	return command
}

// runStatus shows the status, or follows it.
func runStatus(command *cobra.Command, hub *cmdutil.Hub, output cmdutil.DocumentOutput, watch bool, timeout time.Duration) error {
	if err := output.CheckFormat(); err != nil {
		return err
	}
	if timeout <= 0 {
		return cmdutil.Usage("--timeout: want a time above 0, got %s", timeout)
	}
	if watch {
		longest := time.Duration(0)
		if command.Flags().Changed("timeout") {
			longest = timeout
		}
		return watchStatus(command.Context(), hub, output, timeout, longest)
	}
	seen, err := observeWithin(command.Context(), hub, timeout)
	if err != nil && output.Format != "" {
		seen = &overview.Fleet{Now: time.Now(), Failed: hub.Explain(err), HubUnread: overview.RootCause(err)}
		return errors.Join(output.Print(hub.Out, newStatusDocument(seen)), err)
	}
	if err != nil {
		return err
	}
	seen.Keeper = hub.DescribeLocalHub()
	verdict, err := printFleet(hub, seen, output)
	return errors.Join(err, verdict)
}

// observeWithin observes the fleet within a time.
func observeWithin(ctx context.Context, hub *cmdutil.Hub, timeout time.Duration) (*overview.Fleet, error) {
	c, err := hub.Client()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	started := time.Now()
	type observed struct {
		*overview.Fleet
		err error
	}
	seen := make(chan observed, 1)
	go func() {
		scope, err := overview.FindScope(limited, hub, c)
		if err != nil {
			seen <- observed{err: err}
			return
		}
		f, err := overview.ObserveFleet(limited, c, scope, started)
		seen <- observed{f, err}
	}()
	var f *overview.Fleet
	select {
	case found := <-seen:
		f, err = found.Fleet, found.err
	case <-limited.Done(): // Asking for the kinds of an API server has no context, and may take longer.
		err = limited.Err()
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && limited.Err() != nil:
		return nil, fmt.Errorf("whether the fleet is healthy is unknown: the hub's API server has not answered within %s: %s", timeout, overview.RootCause(err))
	case err != nil:
		return nil, err
	}
	// This process may have been stopped, or have starved.
	if took := time.Since(started); took > timeout {
		f.Took = took
	}
	return f, nil
}

// emptyFleet is said where there is nothing to judge.
const emptyFleet = "There is no Cluster, Machine or any other object of a fleet: only the hub was checked. Add a cluster with: kubectl hollow cluster join NAME"

// describeRest is what to do next where little can be seen; empty for nothing.
func describeRest(f *overview.Fleet) string {
	switch {
	case f.IsNamespaceMissing():
		return "You may not list all namespaces. For one that you may list: -n NAMESPACE"
	case f.IsEmpty() && f.Scope.Namespace != "":
		return fmt.Sprintf("There is no Machine or any other object of a fleet in namespace %s: only the hub was checked", f.Scope.Namespace)
	case f.IsEmpty():
		return emptyFleet
	}
	return ""
}

// printFleet prints the fleet. verdict is the error that counts what is wrong.
func printFleet(hub *cmdutil.Hub, f *overview.Fleet, output cmdutil.DocumentOutput) (verdict, err error) {
	if output.Format != "" {
		return f.VerdictError(), output.Print(hub.Out, newStatusDocument(f))
	}
	hub.Say("%-21s%s", "Hub:", f.HubLine())
	if scope := f.Scope.Describe(); scope != "" {
		hub.Say("%-21s%s", "Scope:", scope)
	}
	if len(f.Removed) > 0 {
		hub.Say("%-21s%s: %s", "Being removed:", strings.Join(f.Removed, ", "), cmdutil.RemovedKind)
	}
	for _, count := range f.Report.Counts {
		hub.Say("%-21s%s", count.Kind+":", overview.CountLine(count))
	}
	for i := range f.Rollouts[:min(len(f.Rollouts), mostRows)] {
		rollout := &f.Rollouts[i]
		hub.Say("%-21s%s", "Rollout:", rollout.Kind+" "+rollout.Name+" to "+rollout.Revision+": "+rollout.Text())
	}
	if more := len(f.Rollouts) - mostRows; more > 0 {
		hub.Say("%-21s%s", "", moreRows([]string{plural.Count(more, "rollout") + " more"}))
	}
	rows, more := f.Report.Rows(mostRows)
	if len(rows) > 0 {
		table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("State", "Kind", "Namespace", "Name", "Reason", "Since", "Next", "Message")}
		for i := range rows {
			row := &rows[i]
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
				string(row.State), row.Kind, row.Namespace, row.Name, row.Reason, formatSince(f.Now, row.Since), row.Next, row.Message,
			}})
		}
		hub.Say("")
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, hub.Out); err != nil {
			return nil, fmt.Errorf("printing: %w", err)
		}
	}
	if note := describeRest(f); note != "" {
		hub.Note("%s", note)
	}
	if len(more) > 0 {
		hub.Say("%s", moreRows(more))
	}
	return f.VerdictError(), nil
}

// moreRows says what a table leaves out.
func moreRows(more []string) string {
	return "And " + strings.Join(more, ", ") + ": kubectl hollow status -o json lists all"
}

func formatSince(now time.Time, at *metav1.Time) string {
	if at == nil {
		return "-"
	}
	return duration.HumanDuration(max(now.Sub(at.Time), time.Duration(0)))
}
