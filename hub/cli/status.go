package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// mostRows is how many objects of a kind the table shows. JSON has all.
const mostRows = 10

// NewStatus returns "status".
func NewStatus(hub *cmdutil.Hub) *cobra.Command {
	var output documentOutput
	timeout := 30 * time.Second
	command := &cobra.Command{
		Use: "status", Short: "Show whether the hub works, and which objects of the fleet are not healthy",
		Long: `Show whether the hub works, how many objects of each kind are healthy, and which are not: why, since when, and the next
command to run. Problems come first. Up to ten objects of each kind are shown; -o json has all.

An object is healthy only if its controller or agent has reported so for its current spec. It is a problem if it is Stalled,
blocked, frozen, unavailable, failed (including the verdict of a load test or a disruption: delete the object once you have read it),
stale, undecodable, stuck in deletion, in progress for longer than its own spec allows, run by a silent agent, without its Cluster, or
not yet observed. A MachineFleet without progressDeadline is a problem if its rollout has waited for an hour in a cluster whose
Machines are done. An object that is in progress, was paused by a user, or is waiting for an approval, a maintenance window or a
schedule is shown, but is not a problem.

The exit code is 0 if there is no problem; 1 if the hub does not work, an object is a problem, the API server does not serve a kind,
or it did not answer within --timeout; and 4 if no problem was found, but you may not list some kind or read the hub's Lease: whatever
could not be checked is named, and does not count as healthy.`,
		Example: `  kubectl hollow status

  # For a script
  kubectl hollow status -o json | jq -r '.objects[] | select(.state == "Problem") | "\(.kind) \(.namespace)/\(.name): \(.message)"'`,
		Args: cmdutil.Args(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := output.checkFormat(); err != nil {
				return err
			}
			seen, err := observeWithin(command.Context(), hub, timeout)
			if err != nil && output.format != "" {
				seen = &fleet{now: time.Now(), failed: hub.Explain(err), hubUnread: rootCause(err)}
				return errors.Join(output.printDocument(hub.Out, seen.newDocument()), err)
			}
			if err != nil {
				return err
			}
			seen.keeper = hub.DescribeLocalHub()
			return seen.printFleet(hub, output)
		},
	}
	output.addFlag(command)
	command.Flags().DurationVar(&timeout, "timeout", timeout, "longest time to wait for the API server; what it has not answered by then is unknown")
	return command
}

// fleet is all that the status is made of.
type fleet struct {
	now time.Time
	hub cmdutil.HubState
	// hubUnread says why the Lease of the hub was not read, and hubForbidden that it may not be.
	hubUnread    string
	hubForbidden bool
	// removed are the kinds that are being deleted.
	removed []string
	report  health.Report
	// failed is why nothing was looked at.
	failed error
	// keeper is what is wrong with the keeper of a local fleet; empty if nothing is, or the hub is elsewhere.
	keeper string
	// took is how long it took to look, if that is so long that what was read first is old.
	took time.Duration
}

// observeWithin observes the fleet within a time.
func observeWithin(ctx context.Context, hub *cmdutil.Hub, timeout time.Duration) (*fleet, error) {
	if timeout <= 0 {
		return nil, cmdutil.Usage("--timeout: want a time above 0, got %s", timeout)
	}
	c, err := hub.Client()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	started := time.Now()
	type observed struct {
		*fleet
		err error
	}
	seen := make(chan observed, 1)
	go func() {
		f, err := observeFleet(limited, c, started)
		seen <- observed{f, err}
	}()
	var f *fleet
	select {
	case found := <-seen:
		f, err = found.fleet, found.err
	case <-limited.Done(): // Asking for the kinds of an API server has no context, and may take longer.
		err = limited.Err()
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && limited.Err() != nil:
		return nil, fmt.Errorf("whether the fleet is healthy is unknown: the hub's API server has not answered within %s: %s", timeout, rootCause(err))
	case err != nil:
		return nil, err
	}
	// This process may have been stopped, or have starved.
	if took := time.Since(started); took > timeout {
		f.took = took
	}
	return f, nil
}

func observeFleet(ctx context.Context, c client.Client, now time.Time) (*fleet, error) {
	f := &fleet{now: now}
	state, err := cmdutil.ReadHubState(ctx, c, now)
	switch {
	case apierrors.IsForbidden(err):
		f.hubUnread, f.hubForbidden = "you may not read its Lease: "+rootCause(err), true
		state = cmdutil.HubState{Version: cmdutil.UnknownVersion}
	case err != nil:
		return nil, err
	}
	f.hub = state
	if f.removed, err = cmdutil.RemovedKinds(ctx, c); err != nil {
		return nil, err
	}
	lists, unread := map[string]client.ObjectList{}, map[string]error{}
	judge, unknown := &health.Judge{Now: now}, 0
	for _, kind := range health.Kinds {
		list := kind.List()
		if err := c.List(ctx, list); err != nil { // One kind that cannot be read keeps no other from being looked at.
			if unread[kind.Kind] = err; meta.IsNoMatchError(err) {
				unknown++
			}
			if unknown == len(health.Kinds) {
				return nil, err
			}
			continue
		}
		lists[kind.Kind] = list
		judge.Observe(list)
	}
	for _, kind := range health.Kinds {
		if err := unread[kind.Kind]; err != nil {
			f.noteUnread(kind.Kind, err)
		} else if err := judge.Add(&f.report, kind.Kind, lists[kind.Kind]); err != nil {
			return nil, err
		}
	}
	f.report.Sort()
	return f, nil
}

// noteUnread says why objects of a kind were not looked at.
func (f *fleet) noteUnread(kind string, err error) {
	switch {
	case meta.IsNoMatchError(err):
		f.report.NotLooked(kind, cmdutil.MissingKind, false)
	case apierrors.IsForbidden(err):
		f.report.NotLooked(kind, "you may not list them: "+rootCause(err), true)
	default:
		f.report.NotLooked(kind, "they could not be listed: "+rootCause(err), false)
	}
}

// rootCause is an error of the API server without what it is wrapped in.
func rootCause(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// printFleet prints the fleet. The error counts what is wrong.
func (f *fleet) printFleet(hub *cmdutil.Hub, output documentOutput) error {
	if output.format != "" {
		if err := output.printDocument(hub.Out, f.newDocument()); err != nil {
			return err
		}
		return f.verdictError()
	}
	hub.Say("%-21s%s", "Hub:", f.hubLine())
	if len(f.removed) > 0 {
		hub.Say("%-21s%s: %s", "Being removed:", strings.Join(f.removed, ", "), cmdutil.RemovedKind)
	}
	for _, count := range f.report.Counts {
		hub.Say("%-21s%s", count.Kind+":", countLine(count))
	}
	rows, more := f.report.Rows(mostRows)
	if len(rows) > 0 {
		table := &metav1.Table{ColumnDefinitions: cmdutil.Columns("State", "Kind", "Namespace", "Name", "Reason", "Since", "Next", "Message")}
		for i := range rows {
			row := &rows[i]
			table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
				string(row.State), row.Kind, row.Namespace, row.Name, row.Reason, f.formatSince(row.Since), row.Next, row.Message,
			}})
		}
		hub.Say("")
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, hub.Out); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	if f.isEmpty() {
		hub.Note("There is no Cluster, Machine or any other object of a fleet: only the hub was checked. Add a cluster with: kubectl hollow cluster join NAME")
	}
	if len(more) > 0 {
		hub.Say("And %s: kubectl hollow status -o json lists all", strings.Join(more, ", "))
	}
	return f.verdictError()
}

// isEmpty reports whether there is nothing to judge.
func (f *fleet) isEmpty() bool {
	return !slices.ContainsFunc(f.report.Counts, func(count health.Count) bool { return count.Total > 0 || count.NotLookedAt != "" })
}

func (f *fleet) hubLine() string {
	switch {
	case f.hubUnread != "":
		return "not checked: " + f.hubUnread
	case f.hub.Problem != "":
		return f.hub.Problem + ". Everything below is the last known state"
	}
	return fmt.Sprintf("works: %s, version %s, Lease renewed %s ago", f.hub.Holder, f.hub.Version, duration.HumanDuration(f.hub.Renewed))
}

func countLine(count health.Count) string {
	if count.NotLookedAt != "" {
		return "not checked: " + count.NotLookedAt
	}
	line := fmt.Sprintf("%d: %d healthy", count.Total, count.Healthy)
	for _, part := range []struct {
		n    int
		what string
	}{{count.InProgress, "in progress"}, {count.Waiting, "waiting"}, {count.Paused, "paused"}, {count.Problems, "with problems"}} {
		if part.n > 0 {
			line += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return line
}

// verdictError is the error of a fleet that is not healthy, or was not looked at.
func (f *fleet) verdictError() error {
	var problems, missing, forbidden []string
	if f.failed != nil {
		return f.failed
	}
	if f.took > 0 {
		missing = append(missing, fmt.Sprintf("everything that has happened since, because reading took %s: run it again", f.took.Round(time.Second)))
	}
	problems = append(problems, f.hubProblems()...)
	if f.hubForbidden {
		forbidden = append(forbidden, "the Lease of the hub")
	}
	for _, count := range f.report.Counts {
		switch {
		case count.Forbidden:
			forbidden = append(forbidden, count.Kind)
		case count.NotLookedAt != "":
			missing = append(missing, count.Kind)
		case count.Problems > 0:
			problems = append(problems, fmt.Sprintf("%d of %s", count.Problems, plural.Count(count.Total, count.Kind)))
		}
	}
	unseen := strings.Join(append(missing, forbidden...), ", ")
	switch {
	case len(problems) > 0 && unseen != "":
		return fmt.Errorf("the fleet is not healthy: %s; not checked: %s", strings.Join(problems, "; "), unseen)
	case len(problems) > 0:
		return fmt.Errorf("the fleet is not healthy: %s", strings.Join(problems, "; "))
	case len(missing) > 0:
		return fmt.Errorf("whether the fleet is healthy is unknown: not checked: %s", unseen)
	case len(forbidden) > 0:
		return cmdutil.Refusal("whether the fleet is healthy is unknown: you may not list: %s", unseen)
	}
	return nil
}

// hubProblems are those of the hub itself.
func (f *fleet) hubProblems() (problems []string) {
	if f.hub.Problem != "" {
		problems = append(problems, "the hub does not work")
	}
	if f.keeper != "" {
		problems = append(problems, f.keeper)
	}
	if len(f.removed) > 0 {
		problems = append(problems, "the hub is being removed: "+strings.Join(f.removed, ", "))
	}
	return problems
}

func (f *fleet) formatSince(at *metav1.Time) string {
	if at == nil {
		return "-"
	}
	return duration.HumanDuration(max(f.now.Sub(at.Time), time.Duration(0)))
}
