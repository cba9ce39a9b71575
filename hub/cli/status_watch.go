package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
	"github.com/hollowfleet/hollowfleet/hub/cli/overview"
	"github.com/hollowfleet/hollowfleet/hub/cli/rollout"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// definitionKind are the definitions of kinds, which say that a hub is being removed.
	definitionKind = "CustomResourceDefinition"
	// narrow is the width below which a row of a screen is broken into several.
	narrow = 80
	// keeperPeriod is how often is looked whether the keeper of a fleet on this machine runs.
	keeperPeriod = 5 * time.Second
)

// watchStatus shows the status until it is interrupted, or for timeout if that is not 0. The first answer may take first.
func watchStatus(ctx context.Context, hub *cmdutil.Hub, output cmdutil.DocumentOutput, first, timeout time.Duration) error {
	c, err := hub.Client()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, first)
	scope, err := overview.FindScope(asking, hub, c)
	cancel()
	if err != nil {
		return err
	}
	kinds := []live.Kind{{Name: definitionKind, List: cmdutil.NewDefinitions()}}
	for _, kind := range health.Kinds {
		if options, inside := scope.Options(kind); inside {
			kinds = append(kinds, live.Kind{Name: kind.Kind, List: kind.List(), Options: options})
		}
	}
	view := &statusView{hub: hub, output: output, scope: scope}
	err = live.Follow(ctx, hub, c, kinds, view, live.Options{First: first, Timeout: timeout, Printed: output.Format != ""})
	switch {
	case errors.Is(err, live.ErrTimeout):
		return view.fleet.VerdictError()
	case errors.Is(err, live.ErrNoAnswer):
		return fmt.Errorf("whether the fleet is healthy is unknown: %w", err)
	}
	return err
}

// statusView is the status on a screen, or one below the other.
type statusView struct {
	hub    *cmdutil.Hub
	output cmdutil.DocumentOutput
	scope  overview.Scope
	fleet  *overview.Fleet
	// keeper is what was last wrong with the keeper of a local fleet, looked at keeperSeen.
	keeper     string
	keeperSeen time.Time
}

// Update implements live.View.
func (v *statusView) Update(known map[string]live.Snapshot, pulse live.Pulse, now time.Time) error {
	f := &overview.Fleet{Now: now, Scope: v.scope, Hub: pulse.Hub, Lost: pulse.DescribeLost(now)}
	if f.Lost != "" {
		f.LostSince = pulse.Answered
	} else {
		f.Hub = pulse.HubAt(now)
	}
	if pulse.Read != nil {
		f.HubUnread, f.HubForbidden = "you may not read its Lease: "+overview.RootCause(pulse.Read), true
		f.Hub = cmdutil.HubState{Version: cmdutil.UnknownVersion}
	}
	if definitions, ok := known[definitionKind].List.(*metav1.PartialObjectMetadataList); ok {
		f.Removed = cmdutil.RemovedIn(definitions)
	}
	lists, unread := map[string]client.ObjectList{}, map[string]error{}
	unknown := 0
	for _, kind := range health.Kinds {
		snapshot, followed := known[kind.Kind]
		switch {
		case !followed:
			unknown++
		case snapshot.List == nil:
			if unread[kind.Kind] = snapshot.Err; meta.IsNoMatchError(snapshot.Err) {
				unknown++
			}
		case snapshot.Err != nil && f.Lost == "":
			f.Stale = append(f.Stale, overview.StaleKind{Kind: kind.Kind, Since: metav1.NewTime(snapshot.Since), Problem: describeStale(snapshot.Err)})
			fallthrough
		default:
			lists[kind.Kind] = snapshot.List
		}
	}
	if unknown == len(health.Kinds) && v.fleet == nil {
		return unread[health.Cluster]
	}
	if now.Sub(v.keeperSeen) > keeperPeriod {
		v.keeper, v.keeperSeen = v.hub.DescribeLocalHub(), now
	}
	f.Keeper = v.keeper
	v.fleet = f
	return f.Judge(lists, unread)
}

func describeStale(err error) string {
	if apierrors.IsForbidden(err) {
		return "you may not watch them: " + overview.RootCause(err)
	}
	return overview.RootCause(err)
}

// Done implements live.View: a fleet that is healthy may be otherwise in a moment.
func (v *statusView) Done() bool { return false }

// Key implements live.View.
func (v *statusView) Key() string {
	f := v.fleet
	parts := []string{fmt.Sprint(f.Lost != ""), f.Hub.Problem, f.Hub.Holder, f.Hub.Version, f.HubUnread, f.Keeper, strings.Join(f.Removed, " ")}
	for _, kind := range f.Stale {
		parts = append(parts, kind.Kind, kind.Problem)
	}
	for _, count := range f.Report.Counts {
		parts = append(parts, fmt.Sprint(count))
	}
	for i := range f.Rollouts {
		parts = append(parts, fmt.Sprint(f.Rollouts[i]))
	}
	for i := range f.Report.Findings {
		finding := &f.Report.Findings[i]
		parts = append(parts, finding.Kind, finding.Namespace, finding.Name, string(finding.State), finding.Reason, finding.Message, fmt.Sprint(finding.Since))
	}
	return live.WithoutAges(strings.Join(parts, "\n"))
}

// Print implements live.View.
func (v *statusView) Print(now time.Time) error {
	if v.output.Format != "" {
		return v.output.PrintNext(v.hub.Out, newStatusDocument(v.fleet))
	}
	v.hub.Say("--- %s", now.Format(time.RFC3339))
	verdict, err := printFleet(v.hub, v.fleet, cmdutil.DocumentOutput{})
	if err != nil {
		return err
	}
	if verdict == nil {
		v.hub.Say("%s.", v.fleet.HealthyLine())
	} else {
		v.hub.Say("%s%s", strings.ToUpper(verdict.Error()[:1]), verdict.Error()[1:])
	}
	v.hub.Say("")
	return nil
}

// Lines implements live.View.
func (v *statusView) Lines(width, _ int) []live.Line {
	f := v.fleet
	lines := []live.Line{{Text: "Status at " + f.Now.Format("15:04:05 MST") + ", Ctrl-C ends it", Tone: live.Faint}}
	verdict := live.Line{Text: "Healthy", Tone: live.Strong}
	if err := f.VerdictError(); err != nil {
		verdict = live.Line{Text: err.Error(), Tone: live.Bad}
	}
	lines = append(lines, live.Wrap(verdict.Text, 0, width, 6, verdict.Tone)...)
	hubTone := live.Plain
	if f.Hub.Problem != "" || f.Lost != "" {
		hubTone = live.Bad
	}
	lines = append(lines, labelled("Hub", f.HubLine(), width, hubTone)...)
	if scope := f.Scope.Describe(); scope != "" {
		lines = append(lines, labelled("Scope", scope, width, live.Plain)...)
	}
	if len(f.Removed) > 0 {
		lines = append(lines, labelled("Being removed", strings.Join(f.Removed, ", ")+": "+cmdutil.RemovedKind, width, live.Bad)...)
	}
	for _, count := range f.Report.Counts {
		tone := live.Plain
		switch {
		case count.NotLookedAt == "" && count.Total == 0:
			continue
		case count.NotLookedAt != "", count.Problems > 0:
			tone = live.Bad
		case count.Healthy < count.Total:
			tone = live.Busy
		}
		lines = append(lines, labelled(count.Kind, overview.CountLine(count), width, tone)...)
	}
	if note := describeRest(f); note != "" {
		lines = append(lines, live.Wrap(note, 0, width, 4, live.Faint)...)
	}
	lines = append(lines, rolloutLines(f.Rollouts, width)...)
	rows, more := f.Report.Rows(mostRows)
	for i := range rows {
		lines = append(lines, findingLines(&rows[i], f.Now, width)...)
	}
	if len(more) > 0 {
		lines = append(lines, live.Wrap(moreRows(more), 0, width, 3, live.Faint)...)
	}
	return lines
}

// rolloutLines are the rollouts that are not complete, each with a bar of the clusters that are updated.
func rolloutLines(rollouts []overview.Rollout, width int) []live.Line {
	var lines []live.Line
	for i := range rollouts[:min(len(rollouts), mostRows)] {
		one := &rollouts[i]
		tone := live.Busy
		if one.Clusters.Failed > 0 {
			tone = live.Bad
		}
		bar := rollout.DrawBar(int64(one.Clusters.Updated), int64(one.Clusters.Selected), width)
		lines = append(lines, live.Wrap(one.Kind+" "+one.Name+" to "+one.Revision, 0, width, 2, tone)...)
		lines = append(lines, live.Wrap(bar+" "+one.Text(), 2, width, 4, tone)...)
	}
	if more := len(rollouts) - mostRows; more > 0 {
		lines = append(lines, live.Wrap(moreRows([]string{plural.Count(more, "rollout") + " more"}), 0, width, 3, live.Faint)...)
	}
	return lines
}

// labelled is a text behind its label, broken where it is too long.
func labelled(label, text string, width int, tone live.Tone) []live.Line {
	const column = 21
	if width >= narrow {
		lines := live.Wrap(text, column, width, 3, tone)
		if len(lines) > 0 {
			lines[0].Text = live.Pad(label+":", column) + strings.TrimLeft(lines[0].Text, " ")
		}
		return lines
	}
	return live.Wrap(label+": "+text, 0, width, 4, tone)
}

// findingLines are an object that is not healthy, on a screen.
func findingLines(finding *health.Finding, now time.Time, width int) []live.Line {
	tone := live.Busy
	if finding.State == health.Problem {
		tone = live.Bad
	}
	name := finding.Name
	if finding.Namespace != "" {
		name = finding.Namespace + "/" + name
	}
	what, why := fmt.Sprintf("%s %s %s", finding.State, finding.Kind, name), finding.Reason+", for "+formatSince(now, finding.Since)
	if finding.Since == nil {
		why = finding.Reason
	}
	lines := []live.Line{{}}
	if width >= narrow {
		lines = append(lines, live.Line{Text: what + "   " + why, Tone: tone})
	} else {
		lines = append(lines, live.Wrap(what, 0, width, 3, tone)...)
		lines = append(lines, live.Wrap(why, 2, width, 2, tone)...)
	}
	return slices.Concat(lines, live.Wrap(finding.Message, 2, width, 4, live.Plain), live.Wrap(finding.Next, 2, width, 3, live.Faint))
}
