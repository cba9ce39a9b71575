package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/follow"
	"github.com/hollowfleet/hollowfleet/hub/cli/health"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

const (
	// mostDone is up to how many clusters those that are done stay on the screen, and mostMachines how many Machines of a cluster it has.
	mostDone, mostMachines = 15, 10
	// wideBar and narrowBar are the widths of bars, and wideScreen the width from which on they are wide.
	wideBar, narrowBar, wideScreen = 30, 8, 80

	wholeKind, partKind = "whole", "MachineDeployment"
)

// board is a rollout on a screen: how far it is, each cluster that has started, and what the Machines there do.
type board struct {
	*subject

	now      time.Time
	progress progress
	lines    []clusterLine
	steps    map[string][]machineStep
	waves    []setWave
	notes    []string
	// missing is the error of an object that does not exist any more, and gone that of a hub that has not worked for long. mayGive: no
	// timeout bounds the waiting, so that gone ends it.
	missing, gone error
	mayGive       bool
}

// clusterLine is a cluster of a fleet on a board.
type clusterLine struct {
	cluster string
	state   follow.State
}

// followOnBoard follows the rollout on a screen until it is complete or has failed.
func (s *subject) followOnBoard(ctx context.Context, timeout time.Duration) error {
	named := []client.ListOption{client.MatchingFields{"metadata.name": s.clientObject().GetName()}}
	kinds := kindsOfSet(s.clientObject().GetName())
	switch {
	case s.fleet != nil:
		kinds = []live.Kind{s.kindOfMachines(), {Name: wholeKind, List: &v1alpha1.MachineFleetList{}, Options: named},
			{Name: partKind, List: &v1alpha1.MachineDeploymentList{}, Options: named}}
	case s.deployment != nil:
		kinds = []live.Kind{s.kindOfMachines(), {Name: wholeKind, List: &v1alpha1.MachineDeploymentList{}, Options: append(named, client.InNamespace(s.deployment.Namespace))}}
	}
	b := &board{subject: s, progress: s.currentProgress(), mayGive: timeout == 0}
	err := live.Follow(ctx, s.hub, s.client, kinds, b, live.Options{Timeout: timeout})
	switch {
	case errors.Is(err, live.ErrTimeout):
		return cmdutil.Timeout("%s has not rolled out within %s: %s", s.fullName(), timeout, s.withReason(b.progress.progressLine()))
	case ctx.Err() != nil:
		s.hub.Note("The rollout continues. To follow it again: kubectl hollow rollout status %s", s.commandArguments())
		return ctx.Err()
	case err != nil:
		return err
	case b.missing != nil:
		return b.missing
	case b.progress.done:
		return s.hub.ProveHub(ctx, s.client, s.fullName()+" "+b.progress.text)
	case b.progress.err != nil:
		return b.progress.err
	}
	return b.gone
}

// Update implements live.View.
func (b *board) Update(known map[string]live.Snapshot, pulse live.Pulse, now time.Time) error {
	b.now, b.notes, b.gone = now, nil, nil
	whole := known[wholeKind]
	if whole.List == nil {
		return whole.Err
	}
	if !b.takeWhole(whole.List) {
		b.missing = cmdutil.NotFound("%s does not exist (any more)", b.clientObject().GetName())
		return nil
	}
	b.progress = b.currentProgress()
	b.steps = listSteps(known[machinesKind].List, b.minReady(), now)
	b.noteUnknown(known, pulse, now)
	if b.set != nil {
		b.waves = wavesOfSet(b.set, known, now)
	}
	if b.fleet == nil {
		return nil
	}
	b.lines = nil
	if parts, ok := known[partKind].List.(*v1alpha1.MachineDeploymentList); ok {
		for i := range parts.Items {
			if state, started := clusterState(b.fleet, &parts.Items[i]); started {
				b.lines = append(b.lines, clusterLine{parts.Items[i].Namespace, state})
			}
		}
	}
	slices.SortFunc(b.lines, func(a, c clusterLine) int { return strings.Compare(a.cluster, c.cluster) })
	return nil
}

// takeWhole takes the object that is followed over from a list; false if it is not there.
func (b *board) takeWhole(list client.ObjectList) bool {
	switch list := list.(type) {
	case *v1alpha1.MachineFleetList:
		if len(list.Items) == 0 {
			return false
		}
		b.fleet = &list.Items[0]
	case *v1alpha1.MachineDeploymentList:
		if len(list.Items) == 0 {
			return false
		}
		b.deployment = &list.Items[0]
	case *v1alpha1.SimulatedClusterSetList:
		if len(list.Items) == 0 {
			return false
		}
		b.set = &list.Items[0]
	}
	return true
}

// noteUnknown notes what is not known, or old.
func (b *board) noteUnknown(known map[string]live.Snapshot, pulse live.Pulse, now time.Time) {
	lost := pulse.DescribeLost(now)
	switch {
	case lost != "":
		b.notes = append(b.notes, "This is the last known state: "+lost)
	case pulse.Hub.Problem != "":
		b.notes = append(b.notes, "Nothing happens for now: the hub does not work: "+pulse.Hub.Problem)
	}
	if pulse.Hub.Gone && lost == "" && b.mayGive {
		b.gone = cmdutil.NewGoneHub(pulse.Hub)
	}
	for _, kind := range []string{machinesKind, partKind, health.SimulatedCluster, health.Cluster} {
		if snapshot := known[kind]; snapshot.Err != nil && lost == "" {
			b.notes = append(b.notes, fmt.Sprintf("%ss are not shown as they are now: %v", kind, snapshot.Err))
		}
	}
}

// Done implements live.View.
func (b *board) Done() bool {
	return b.missing != nil || b.progress.done || b.progress.err != nil || b.gone != nil
}

// Key implements live.View: a board is for a screen only.
func (b *board) Key() string { return b.progress.progressLine() }

// Print implements live.View.
func (b *board) Print(time.Time) error {
	b.printf("%s", b.progress.progressLine())
	return nil
}

// Lines implements live.View.
func (b *board) Lines(width, _ int) []live.Line {
	tone := live.Strong
	if b.progress.err != nil {
		tone = live.Bad
	}
	lines := live.Wrap(b.lineOf("%s", b.progress.progressLine()), 0, width, 6, tone)
	for _, note := range b.notes {
		lines = append(lines, live.Wrap(note, 0, width, 4, live.Bad)...)
	}
	if b.set != nil {
		for i := range b.waves {
			lines = append(lines, b.waves[i].screenLines(width)...)
		}
		return lines
	}
	if b.fleet == nil {
		status := &b.deployment.Status
		if want := b.deployment.Spec.Replicas; want != nil && *want > 0 && status.ObservedGeneration == b.deployment.Generation {
			lines = append(lines, live.Linef("%s", DrawBar(int64(status.UpdatedReplicas), int64(*want), width)))
		}
		return append(lines, b.stepLines(b.deployment.Namespace, 2, width)...)
	}
	return append(lines, b.clusterLines(width)...)
}

// clusterLines are the clusters of a fleet, with the Machines in them that are not simply Ready.
func (b *board) clusterLines(width int) []live.Line {
	all := b.fleetState(b.progress)
	column, done := len("all clusters"), 0
	for _, one := range b.lines {
		column = max(column, live.Width(one.cluster))
	}
	column = min(column, width/3)
	var lines []live.Line
	for _, one := range b.lines {
		if one.state.Ended && len(b.lines) > mostDone {
			done++
			continue
		}
		lines = append(lines, live.Line{Text: live.Pad(one.cluster, column) + " " + DrawBar(one.state.Current, one.state.Total, width) + " " + one.state.Text})
		lines = append(lines, b.stepLines(one.cluster, 2, width)...)
	}
	if done > 0 {
		lines = append(lines, live.Line{Text: "and " + plural.Count(done, "cluster") + " more that are updated", Tone: live.Faint})
	}
	return append(lines, live.Line{Text: live.Pad("all clusters", column) + " " + DrawBar(all.Current, all.Total, width) + " " + all.Text})
}

// stepLines are the Machines of a namespace that are not simply Ready.
func (b *board) stepLines(namespace string, indent, width int) []live.Line {
	var lines []live.Line
	steps := b.steps[namespace]
	for i := range steps[:min(len(steps), mostMachines)] {
		step, tone := &steps[i], live.Plain
		switch {
		case step.NeedsAPerson():
			tone = live.Bad
		case step.Doing == health.Draining:
			tone = live.Busy
		}
		if width >= wideScreen {
			lines = append(lines, live.Wrap(step.name+" "+step.text(b.now), indent, width, 3, tone)...)
			continue
		}
		lines = append(lines, live.Wrap(step.name, indent, width, 2, tone)...)
		lines = append(lines, live.Wrap(step.text(b.now), indent+2, width, 5, tone)...)
	}
	if more := len(steps) - mostMachines; more > 0 {
		lines = append(lines, live.Line{Text: strings.Repeat(" ", indent) + "and " + plural.Count(more, "Machine") + " more", Tone: live.Faint})
	}
	return lines
}

// DrawBar is a bar for a screen of that width.
func DrawBar(current, total int64, width int) string {
	size := int64(wideBar)
	if width < wideScreen {
		size = narrowBar
	}
	full := size * min(max(current, 0), max(total, 1)) / max(total, 1)
	bar := strings.Repeat("=", int(full))
	if full > 0 && full < size {
		bar += ">"
	}
	return "[" + bar + strings.Repeat("-", int(size)-len(bar)) + "]"
}
