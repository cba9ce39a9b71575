package disruption

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	nodes "github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/disrupt"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/plural"
)

// mostWarnings is how many warnings a preview has, and mostWarning how many characters each.
const mostWarnings, mostWarning = 8, 512

// startRun chooses the Nodes of a run when it is time.
func (w *World) startRun(run *v1alpha1.NodeDisruptionRun, status v1alpha1.NodeDisruptionRunStatus) v1alpha1.NodeDisruptionRunStatus {
	status.Phase = v1alpha1.NodeDisruptionPending
	selected, effect, candidates, err := w.chooseNodes(run)
	if err == nil {
		err = validateRun(run)
	}
	if err != nil {
		status.Phase, status.Message = v1alpha1.NodeDisruptionFailed, err.Error()
		return status
	}
	warnings := effect.Warnings()
	if hasNeverJoin(run) {
		warnings = append(warnings, fmt.Sprintf("NeverJoin also hits Machines that are created while the run is in progress; %d that it could hit now are about to join", w.aboutToJoin(run)))
	}
	if kwok := w.countKwok(run); kwok > 0 {
		warnings = append(warnings, leavesKwok(kwok))
	}
	status.Preview = previewOf(selected, warnings)
	preview := strings.Join(append([]string{"would hit " + nameNodes(selected)}, warnings...), "; ")
	due := run.CreationTimestamp.Add(run.Spec.Timing.StartAfter.Duration)
	switch {
	case run.Spec.Paused:
		status.Message = "paused: " + preview
	case w.Frozen:
		status.Message = "the agent is frozen and starts no disruption: " + preview
	case w.Now.Before(due.Add(-lead)):
		status.Message = fmt.Sprintf("starts at %s: %s", due.UTC().Format(time.RFC3339), preview)
	case len(selected) == 0 && !hasNeverJoin(run):
		status.Phase, status.Message = v1alpha1.NodeDisruptionFailed, "spec.target: no Node is hit: "+w.explainNoTarget(run)
	default:
		start := w.Now.Add(lead)
		if start.Before(due) {
			start = due
		}
		start = start.Truncate(time.Second).Add(time.Second)
		begins, ends := metav1.NewTime(start), metav1.NewTime(start.Add(run.Spec.Timing.Duration.Duration).Truncate(time.Second))
		status.Preview = nil
		status.StartTime, status.EndTime, status.Selected, status.Candidates = &begins, &ends, int32(len(selected)), int32(candidates)
		for _, name := range selected {
			chosen := v1alpha1.DisruptedNode{Name: name}
			if node := w.Nodes[name]; node != nil {
				chosen.BootID = node.Status.NodeInfo.BootID
			}
			status.Nodes = append(status.Nodes, chosen)
		}
		slices.SortFunc(status.Nodes, func(a, b v1alpha1.DisruptedNode) int { return cmp.Compare(a.Name, b.Name) })
		status.Message = strings.Join(append([]string{describeStart(len(selected), start)}, warnings...), "; ")
	}
	return status
}

// chooseNodes returns the names of the Nodes that a run would hit now, what the node-lifecycle controller would make of it, and among
// how many Machines the Nodes are chosen.
func (w *World) chooseNodes(run *v1alpha1.NodeDisruptionRun) (selected []string, effect disrupt.Effect, among int, err error) {
	target := run.Spec.Target
	chosen, err := metav1.LabelSelectorAsSelector(orEverything(target.MachineSelector))
	if err != nil {
		return nil, disrupt.Effect{}, 0, fmt.Errorf("spec.target.machineSelector: %w", err)
	}
	excluded, err := metav1.LabelSelectorAsSelector(target.Exclude) // Nil selects nothing.
	if err != nil {
		return nil, disrupt.Effect{}, 0, fmt.Errorf("spec.target.exclude: %w", err)
	}
	var candidates []disrupt.Candidate
	var states []disrupt.NodeState
	for i := range w.Machines {
		machine := &w.Machines[i]
		node := w.Nodes[machine.Name]
		if node != nil && machine.DeletionTimestamp == nil {
			states = append(states, stateOf(machine.Name, node))
		}
		if !w.isOfConcern(run, machine) || !matchesTarget(target, chosen, machine, node) {
			continue
		}
		candidates = append(candidates, disrupt.Candidate{
			Name: machine.Name, Unavailable: node == nil || !nodes.Ready(node),
			Excluded: excluded.Matches(labels.Set(machine.Labels)) || !w.Pods[machine.Name].Disruptable,
		})
	}
	selection, err := selectionOf(run, len(candidates))
	if err != nil {
		return nil, disrupt.Effect{}, 0, err
	}
	selected = selection.Select(candidates)
	if len(selected) > mostNodes {
		return nil, disrupt.Effect{}, 0, fmt.Errorf("spec.target: %d Nodes are more than %d: choose fewer, or use several runs", len(selected), mostNodes)
	}
	effect = disrupt.Thresholds(states, nil)
	if mayTurnNotReady(run) {
		effect = disrupt.Thresholds(states, selected)
	}
	candidates = slices.DeleteFunc(candidates, func(c disrupt.Candidate) bool { return c.Excluded })
	return selected, effect, len(candidates), nil
}

// selectionOf returns how a run chooses among that many candidates.
func selectionOf(run *v1alpha1.NodeDisruptionRun, candidates int) (disrupt.Selection, error) {
	target := run.Spec.Target
	selection := disrupt.Selection{Seed: run.Spec.SeedValue(), Mode: cmp.Or(target.Mode, disrupt.ModeAll), Value: target.Value}
	if target.MaxUnavailable != nil && mayTurnNotReady(run) {
		most, err := intstr.GetScaledValueFromIntOrPercent(target.MaxUnavailable, candidates, false)
		if err != nil {
			return selection, fmt.Errorf("spec.target.maxUnavailable: %w", err)
		}
		bound := int32(most)
		selection.MaxUnavailable = &bound
	}
	if err := selection.Validate(); err != nil {
		return selection, fmt.Errorf("spec.target: %w", err)
	}
	return selection, nil
}

// mayTurnNotReady reports whether Nodes of a run may become unavailable by it.
func mayTurnNotReady(run *v1alpha1.NodeDisruptionRun) bool {
	return slices.ContainsFunc(run.Spec.Faults, func(f disrupt.Fault) bool { return f.MayTurnNotReady() })
}

// validateRun reports what keeps a run from being carried out, however long one waits.
func validateRun(run *v1alpha1.NodeDisruptionRun) error {
	return oneLine(run.Spec.Validate())
}

// oneLine joins errors for a message, in which line breaks would be lost or break a table.
func oneLine(joined error) error {
	if joined == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(joined.Error(), "\n", "; "))
}

// matchesTarget reports whether a Machine and its Node are of the target.
func matchesTarget(target v1alpha1.DisruptionTarget, chosen labels.Selector, machine *v1alpha1.Machine, node *corev1.Node) bool {
	if target.MachineDeployment != "" && machine.Labels[v1alpha1.MachineDeploymentNameLabel] != target.MachineDeployment {
		return false
	}
	zone := machine.Spec.NodeMetadata.Labels[corev1.LabelTopologyZone] // Before it joins, that is all that is known of it.
	if node != nil {
		zone = node.Labels[corev1.LabelTopologyZone]
	}
	if len(target.Zones) > 0 && !slices.Contains(target.Zones, zone) {
		return false
	}
	return chosen.Matches(labels.Set(machine.Labels))
}

// explainNoTarget says why no Node is hit.
func (w *World) explainNoTarget(run *v1alpha1.NodeDisruptionRun) string {
	if chosen := w.countCandidates(run); run.Spec.Target.Mode == disrupt.ModePercent && chosen > 0 {
		return fmt.Sprintf("%d%% of %s rounds down to 0: use a larger percentage, or mode One", run.Spec.Target.Value, countNodes(chosen))
	}
	undisruptable := 0
	for _, pod := range w.Pods {
		if !pod.Disruptable {
			undisruptable++
		}
	}
	why := fmt.Sprintf("the cluster has %s with %s; correct the target", plural.Count(len(w.Machines), "Machine"), plural.Count(len(w.Nodes), "Node"))
	if kwok := w.countKwok(run); kwok > 0 {
		why += "; " + leavesKwok(kwok)
	}
	if undisruptable > 0 {
		why += fmt.Sprintf(", or replace the %s whose pods an earlier agent created", plural.Count(undisruptable, "Machine"))
	}
	return why
}

// onlyNeverJoin reports whether a run concerns only Machines whose Nodes have not joined.
func onlyNeverJoin(run *v1alpha1.NodeDisruptionRun) bool {
	return !slices.ContainsFunc(run.Spec.Faults, func(f disrupt.Fault) bool { return f.Type != disrupt.NeverJoin })
}

// isOfConcern reports whether a Machine can be hit by a run as it is now.
func (w *World) isOfConcern(run *v1alpha1.NodeDisruptionRun, machine *v1alpha1.Machine) bool {
	_, hasPod := w.Pods[machine.Name]
	switch {
	case machine.DeletionTimestamp != nil:
		return false
	case onlyNeverJoin(run):
		return isAboutToJoin(machine, w.Nodes[machine.Name]) && hasPod
	}
	return w.Nodes[machine.Name] != nil
}

// aboutToJoin is how many Machines of the target have a pod, and no Node yet.
func (w *World) aboutToJoin(run *v1alpha1.NodeDisruptionRun) int {
	count := 0
	for i := range w.Machines {
		machine := &w.Machines[i]
		if _, made := w.Pods[machine.Name]; made && isAboutToJoin(machine, w.Nodes[machine.Name]) && isTarget(run, machine) {
			count++
		}
	}
	return count
}

func isAboutToJoin(machine *v1alpha1.Machine, node *corev1.Node) bool {
	return node == nil && machine.Spec.ProviderID == nil && machine.DeletionTimestamp == nil
}

// countCandidates is how many Machines of the target could be hit.
func (w *World) countCandidates(run *v1alpha1.NodeDisruptionRun) int {
	return w.countTargets(run, func(*corev1.Node) bool { return true })
}

// countKwok is how many Machines of the target are Nodes of provider kwok, which no run hits.
func (w *World) countKwok(run *v1alpha1.NodeDisruptionRun) int {
	return w.countTargets(run, func(node *corev1.Node) bool {
		return node != nil && node.Labels[v1alpha1.HollowNodeLabel] == v1alpha1.KwokNodeLabelValue
	})
}

// leavesKwok says why that many Nodes are not hit.
func leavesKwok(count int) string {
	return fmt.Sprintf("%s of provider kwok and left out, because no kubelet is there to be disrupted", plural.Are(count, "Node"))
}

// countTargets is how many Machines of the target have such a Node.
func (w *World) countTargets(run *v1alpha1.NodeDisruptionRun, isCounted func(*corev1.Node) bool) int {
	chosen, err := metav1.LabelSelectorAsSelector(orEverything(run.Spec.Target.MachineSelector))
	if err != nil {
		return 0
	}
	count := 0
	for i := range w.Machines {
		if machine := &w.Machines[i]; w.isOfConcern(run, machine) && matchesTarget(run.Spec.Target, chosen, machine, w.Nodes[machine.Name]) && isCounted(w.Nodes[machine.Name]) {
			count++
		}
	}
	return count
}

// stateOf is a Node as the node-lifecycle controller counts it.
func stateOf(name string, node *corev1.Node) disrupt.NodeState {
	zone := node.Labels[corev1.LabelTopologyZone]
	if region := node.Labels[corev1.LabelTopologyRegion]; region != "" {
		zone = region + "/" + zone
	}
	_, excluded := node.Labels["node.kubernetes.io/exclude-disruption"]
	return disrupt.NodeState{Name: name, Zone: zone, Ready: nodes.Ready(node), Excluded: excluded}
}

// orEverything is a selector, or one that selects everything.
func orEverything(selector *metav1.LabelSelector) *metav1.LabelSelector {
	if selector == nil {
		return &metav1.LabelSelector{}
	}
	return selector
}

// previewOf is which Nodes would be hit.
func previewOf(selected, warnings []string) *v1alpha1.NodePreview {
	sorted := slices.Sorted(slices.Values(selected))
	preview := &v1alpha1.NodePreview{Selected: int32(len(sorted)), Nodes: sorted[:min(len(sorted), mostNames)]}
	for _, warning := range warnings[:min(len(warnings), mostWarnings)] {
		preview.Warnings = append(preview.Warnings, conditions.Shorten(warning, mostWarning))
	}
	return preview
}

// nameNodes counts Nodes, and names the first ones.
func nameNodes(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	text := countNodes(len(sorted))
	if len(sorted) == 0 {
		return text
	}
	rest := len(sorted) - mostNames
	if rest > 0 {
		sorted = sorted[:mostNames]
	}
	text += ": " + strings.Join(sorted, ", ")
	if rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// describeStart says when Nodes start to fail.
func describeStart(nodes int, at time.Time) string {
	return fmt.Sprintf("%s: the faults start at %s", countNodes(nodes), at.UTC().Format(time.RFC3339))
}

// countNodes is a number of Nodes in words.
func countNodes(nodes int) string {
	if nodes == 1 {
		return "1 Node"
	}
	return fmt.Sprintf("%d Nodes", nodes)
}
