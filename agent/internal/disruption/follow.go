package disruption

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodes "github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// followRun records what happened to the Nodes of a run that has started.
func (w *World) followRun(run *v1alpha1.NodeDisruptionRun, status *v1alpha1.NodeDisruptionRunStatus) {
	entries := entriesOf(run)
	status.Injected, status.Observed, status.Recovered = 0, 0, 0
	for i := range status.Nodes {
		node := &status.Nodes[i]
		w.followNode(run, entries, node)
		w.judgeExpectations(run, node, firstFaultAt(entries, node))
		if node.InjectedAt != nil {
			status.Injected++
		}
		if node.ObservedAt != nil {
			status.Observed++
		}
		if node.RecoveredAt != nil {
			status.Recovered++
		}
	}
}

// followNode records what happened to one Node. A fault counts as injected when its first window has started and the pod has
// the plan.
func (w *World) followNode(run *v1alpha1.NodeDisruptionRun, entries []disrupt.Entry, node *v1alpha1.DisruptedNode) {
	pod, has := w.Pods[node.Name]
	carried := w.carriesRun(run, node.Name)
	startsAt := firstFaultAt(entries, node)
	late := onlyNeverJoin(run) && w.joinedBefore(entries, node, startsAt)
	if node.InjectedAt == nil && carried && !late && !startsAt.IsZero() && !w.Now.Before(startsAt) {
		at := metav1.NewTime(startsAt.Truncate(time.Second))
		node.InjectedAt = &at
	}
	node.Message = podMessage(pod, has)
	switch {
	case late && node.InjectedAt == nil:
		node.Message = "it joined before the fault started"
	case !has && node.ArrivedAt != nil && node.InjectedAt == nil:
		node.Message = "its pod is not created yet"
	}
	if w.Frozen || node.InjectedAt == nil { // What is seen while frozen may be old.
		return
	}
	active, _ := disrupt.At(entries, node.Name, w.Now)
	w.observeNode(run, node, carried && len(active) > 0)
}

// joinedBefore reports whether a Node was not kept from joining: it was created before the end of the window that had started at that time.
func (w *World) joinedBefore(entries []disrupt.Entry, node *v1alpha1.DisruptedNode, at time.Time) bool {
	there := w.Nodes[node.Name]
	if there == nil {
		return false
	}
	for i := range entries {
		if window, within, _ := entries[i].At(node.Name, at); within && !there.CreationTimestamp.Time.Before(window.End) {
			return false
		}
	}
	return true
}

// firstFaultAt is when the first fault of a Node starts: for a Machine that was created later, when it was. Zero means never.
func firstFaultAt(entries []disrupt.Entry, node *v1alpha1.DisruptedNode) time.Time {
	first := firstWindow(entries, node.Name)
	if node.ArrivedAt != nil && node.ArrivedAt.After(first) {
		return node.ArrivedAt.Time
	}
	return first
}

// carriesRun reports whether a Node's pod has the run in its plan.
func (w *World) carriesRun(run *v1alpha1.NodeDisruptionRun, name string) bool {
	return strings.Contains(w.Pods[name].Plan, `"`+string(run.UID)+`"`)
}

// observeNode records whether the API server shows that a Node is disrupted, or healthy again. One that ought to be disrupted now has
// not recovered, whatever it shows.
func (w *World) observeNode(run *v1alpha1.NodeDisruptionRun, node *v1alpha1.DisruptedNode, disrupted bool) {
	now := metav1.NewTime(w.Now.Truncate(time.Second))
	wrong := w.isWrong(run, node.Name)
	if node.ObservedAt == nil && (wrong || w.isRestarted(run, node)) {
		node.ObservedAt = &now
	}
	switch {
	case wrong:
		node.RecoveredAt = nil
	case node.RecoveredAt == nil && node.ObservedAt != nil && !disrupted:
		node.RecoveredAt = &now
	}
}

// podMessage says why a Node cannot be disrupted; empty if it can.
func podMessage(pod Pod, has bool) string {
	switch {
	case !has:
		return "its pod is gone"
	case !pod.Disruptable:
		return "its pod was recreated by an agent that does not support disruptions"
	default:
		return ""
	}
}

// firstWindow is when the first window of any entry starts on a node; zero for never.
func firstWindow(entries []disrupt.Entry, node string) time.Time {
	var first time.Time
	for i := range entries {
		for window := range entries[i].Windows(node) {
			if first.IsZero() || window.Start.Before(first) {
				first = window.Start
			}
			break
		}
	}
	return first
}

// isWrong reports whether the API server shows that a Node has one of the faults. Those that no Node shows, such as slow requests
// or pods that do not start, are never seen.
func (w *World) isWrong(run *v1alpha1.NodeDisruptionRun, name string) bool {
	node := w.Nodes[name]
	for i := range run.Spec.Faults {
		fault := &run.Spec.Faults[i]
		switch {
		case fault.MayTurnNotReady() && (node == nil || !nodes.Ready(node)):
			return true
		case node == nil:
		case fault.Type == disrupt.Pressure && anyPressure(node):
			return true
		case fault.Type == disrupt.Condition && fault.Condition != nil &&
			nodes.HasCondition(node, fault.Condition.Type, cmp.Or(fault.Condition.Status, corev1.ConditionTrue)):
			return true
		}
	}
	return false
}

// isRestarted reports whether a Node shows that it was started again, as it is to be.
func (w *World) isRestarted(run *v1alpha1.NodeDisruptionRun, node *v1alpha1.DisruptedNode) bool {
	restarts := slices.ContainsFunc(run.Spec.Faults, func(f disrupt.Fault) bool {
		return f.Type == disrupt.Kill || f.Type == disrupt.Reboot || f.Type == disrupt.Shutdown
	})
	now := w.Nodes[node.Name]
	return restarts && now != nil && node.BootID != "" && now.Status.NodeInfo.BootID != node.BootID
}

func anyPressure(node *corev1.Node) bool {
	return slices.ContainsFunc([]corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure},
		func(kind corev1.NodeConditionType) bool { return nodes.HasCondition(node, kind, corev1.ConditionTrue) })
}
