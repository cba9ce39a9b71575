package machinefleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hollowfleet/hollowfleet/hub/cli/cmdutil"
	"github.com/hollowfleet/hollowfleet/hub/cli/live"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// lastKnown opens why a tree is old.
const lastKnown = "This is the last known state: "

// wideTree is the width from which on a row of a screen has a message.
const wideTree = 100

// treeView is a tree on a screen, or one below the other.
type treeView struct {
	hub    *cmdutil.Hub
	output *cmdutil.Output
	// document is the format of documents; empty for a table.
	document cmdutil.DocumentOutput
	root     root

	roots []*Node
	now   time.Time
	// left says what is left out of the tree, and stale what in it is old.
	left, stale []string
	// missing are the errors that say that the API server does not have a kind.
	missing map[string]bool
	// gone is the error of a root that does not exist any more.
	gone error
}

// Update implements live.View.
func (v *treeView) Update(known map[string]live.Snapshot, pulse live.Pulse, now time.Time) error {
	v.now = now
	f, err := newForest(v.root, known, v.describeUnread)
	if err != nil {
		return err
	}
	if roots, gone := f.grow(); gone == nil {
		v.roots = roots
	} else {
		v.gone = gone
	}
	v.left, v.stale = f.left, nil
	lost := pulse.DescribeLost(now)
	switch {
	case lost != "":
		v.stale = append(v.stale, lastKnown+lost)
	case pulse.Hub.Problem != "":
		v.stale = append(v.stale, lastKnown+"the hub does not work: "+pulse.Hub.Problem)
	}
	for _, kind := range v.root.listKinds() {
		if snapshot := known[kind.Name]; snapshot.List != nil && snapshot.Err != nil && lost == "" {
			v.stale = append(v.stale, fmt.Sprintf("%s as of %s: %v", kind.Name, snapshot.Since.Format(time.TimeOnly), snapshot.Err))
		}
	}
	return nil
}

// notes are what to know of the tree.
func (v *treeView) notes() []string {
	notes := slices.Clone(v.stale)
	for _, left := range v.left {
		notes = append(notes, "Left out: "+left)
	}
	return notes
}

// describeUnread is that of the hub, which is asked about each kind that is missing once only: it asks the API server.
func (v *treeView) describeUnread(err error) (why string, partial, forbidden bool) {
	if v.missing[err.Error()] {
		return cmdutil.MissingKind, true, false
	}
	why, partial, forbidden = v.hub.DescribeUnread(err)
	v.missing[err.Error()] = partial && !forbidden
	return why, partial, forbidden
}

// Done implements live.View.
func (v *treeView) Done() bool { return v.gone != nil }

// Key implements live.View.
func (v *treeView) Key() string {
	var parts []string
	for _, row := range tableOf(v.roots).Rows {
		parts = append(parts, fmt.Sprint(row.Cells...))
	}
	return live.WithoutAges(strings.Join(v.notes(), "\n")) + "\n" + strings.Join(parts, "\n")
}

// Print implements live.View.
func (v *treeView) Print(now time.Time) error {
	switch {
	case v.Done():
		return nil
	case v.document.Format != "":
		return v.document.PrintNext(v.hub.Out, newTreeDocument(v.roots, v.left, v.stale, v.now))
	}
	v.hub.Say("--- %s", now.Format(time.RFC3339))
	for _, note := range v.notes() {
		v.hub.Say("%s", note)
	}
	err := v.output.Table(v.hub.Out, tableOf(v.roots))
	v.hub.Say("")
	return err
}

// Lines implements live.View.
func (v *treeView) Lines(width, height int) []live.Line {
	lines := []live.Line{{Text: "Tree at " + v.now.Format("15:04:05 MST") + ", Ctrl-C ends it", Tone: live.Faint}}
	for _, note := range v.notes() {
		lines = append(lines, live.Wrap(note, 0, width, 4, live.Bad)...)
	}
	roots := foldTree(v.roots, height-1-len(lines))
	column := 0
	for _, root := range roots {
		root.walk("", "", func(n *Node, first, _ string) { column = max(column, live.Width(first+n.Name)) })
	}
	for _, root := range roots {
		root.walk("", "", func(n *Node, first, below string) {
			lines = append(lines, n.screenLines(first, below, column, width)...)
		})
	}
	return lines
}

// screenLines are a node on a screen, whose names need column.
func (n *Node) screenLines(first, below string, column, width int) []live.Line {
	state, tone := n.Ready, live.Plain
	switch {
	case strings.HasPrefix(n.Frozen, "True"):
		state, tone = "Frozen "+strings.TrimPrefix(n.Frozen, "True "), live.Bad
	case n.Ready != "" && n.Ready != "True":
		tone = live.Bad
	}
	room := max(width/2, width-30)
	if width < wideTree {
		room = max(width/2, width-14)
	}
	if _, reason, has := strings.Cut(strings.TrimSuffix(state, ")"), "("); has && width < wideTree && !strings.HasPrefix(state, "Frozen") {
		state = reason
	}
	line := live.Pad(first+n.Name, min(column, room)) + "  " + state
	if width < wideTree {
		lines := []live.Line{{Text: line, Tone: tone}}
		if n.isFine() || n.Message == "" || len(n.Children) > 1 {
			return lines
		}
		for _, more := range live.Wrap(n.Message, 0, width-live.Width(below)-2, 2, tone) {
			lines = append(lines, live.Line{Text: below + "  " + more.Text, Tone: tone})
		}
		return lines
	}
	return []live.Line{{Text: live.Pad(line, min(column, room)+22) + "  " + live.Pad(n.Kubelet, 9) + " " + n.Message, Tone: tone}}
}

// isFine reports whether the node and all below it are Ready and not frozen. What has no condition is as what is above it.
func (n *Node) isFine() bool {
	if n.Ready != "" && n.Ready != "True" || strings.HasPrefix(n.Frozen, "True") {
		return false
	}
	for _, child := range n.Children {
		if !child.isFine() {
			return false
		}
	}
	return true
}

// foldTree counts what is fine where the tree has more nodes than there is room for: first Machines, then all kinds.
func foldTree(roots []*Node, room int) []*Node {
	for _, kinds := range []string{"Node", "Node Machine", "Node Machine MachineSet MachineDeployment Cluster SimulatedCluster"} {
		if countNodes(roots) <= room {
			return roots
		}
		folded := make([]*Node, 0, len(roots))
		for _, root := range roots {
			folded = append(folded, root.fold(kinds))
		}
		roots = folded
	}
	return roots
}

// fold returns the node with its children of kinds counted that are fine.
func (n *Node) fold(kinds string) *Node {
	folded := *n
	folded.Children = nil
	fine, kind := 0, ""
	for _, child := range n.Children {
		childKind, _, _ := strings.Cut(child.Name, "/")
		if child.isFine() && strings.Contains(kinds, childKind) && (childKind != "Node" || n.isFine()) {
			fine, kind = fine+1, childKind
			continue
		}
		folded.Children = append(folded.Children, child.fold(kinds))
	}
	if fine > 0 && kind != "Node" {
		folded.Children = append(folded.Children, &Node{Name: plural.Count(fine, kind), Ready: "True"})
	}
	return &folded
}

func countNodes(roots []*Node) int {
	count := 0
	for _, root := range roots {
		root.walk("", "", func(*Node, string, string) { count++ })
	}
	return count
}
