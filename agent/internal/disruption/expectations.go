package disruption

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// judgeExpectations notes which expectations are met on a Node, and which can not be any more. What is noted stays. While the API server
// does not answer nothing is missed: what it would show is not known. Started is when the first fault of the Node starts.
func (w *World) judgeExpectations(run *v1alpha1.NodeDisruptionRun, node *v1alpha1.DisruptedNode, started time.Time) {
	if run.Spec.Paused && !started.IsZero() && !w.Now.Before(started) {
		// The fault was not there as long as it should have been.
		w.giveUp(run, node)
	}
	if w.Frozen || run.Spec.Paused || node.InjectedAt == nil {
		return
	}
	for i := range run.Spec.Expectations {
		w.judgeExpectation(&run.Spec.Expectations[i], int32(i), node)
	}
}

// judgeExpectation notes whether one expectation is met, or can not be any more.
func (w *World) judgeExpectation(expectation *v1alpha1.DisruptionExpectation, number int32, node *v1alpha1.DisruptedNode) {
	if expectation.Type == v1alpha1.ExpectPodsEvicted && node.Pods == nil {
		if pods, known := w.Evictable[node.Name]; known {
			node.Pods = &pods
		}
	}
	if isJudged(node, number) || noPods(*expectation, node) {
		return
	}
	switch at, known := w.metAt(*expectation, node); {
	case !known:
	case !at.IsZero() && !w.isTooLate(expectation, node, at):
		node.Met = append(node.Met, number)
	case !at.IsZero() || w.isTooLate(expectation, node, w.Answered):
		node.Missed = append(node.Missed, number)
	}
}

// isTooLate reports whether a time is too late for an expectation. Frozen time does not count.
func (w *World) isTooLate(expectation *v1alpha1.DisruptionExpectation, node *v1alpha1.DisruptedNode, at time.Time) bool {
	frozen := w.frozenSince(node.InjectedAt.Time) - w.frozenSince(at)
	return at.Sub(node.InjectedAt.Time)-frozen > expectation.Within.Duration
}

// isJudged reports whether nothing more is to be said of an expectation on a Node.
func isJudged(node *v1alpha1.DisruptedNode, number int32) bool {
	return slices.Contains(node.Met, number) || slices.Contains(node.Missed, number) || slices.Contains(node.Unknown, number)
}

// giveUp notes that it is unknown whether the open expectations of a Node are met.
func (w *World) giveUp(run *v1alpha1.NodeDisruptionRun, node *v1alpha1.DisruptedNode) {
	for i := range run.Spec.Expectations {
		if number := int32(i); !isJudged(node, number) {
			node.Unknown = append(node.Unknown, number)
		}
	}
}

// evictionsExpected are the names of the Nodes whose pods have to be counted.
func (w *World) evictionsExpected() []string {
	names := map[string]bool{}
	for i := range w.Runs {
		run := &w.Runs[i]
		expected := slices.IndexFunc(run.Spec.Expectations, func(e v1alpha1.DisruptionExpectation) bool { return e.Type == v1alpha1.ExpectPodsEvicted })
		if expected < 0 || run.Status.StartTime == nil || w.Now.Before(run.Status.StartTime.Time) || isOver(run.Status.Phase) {
			continue
		}
		for j := range run.Status.Nodes {
			if node := &run.Status.Nodes[j]; !isJudged(node, int32(expected)) && (node.Pods == nil || *node.Pods > 0) {
				names[node.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// isEvictable reports whether the node-lifecycle controller would evict a pod, and has not yet: neither a static pod nor one of a
// DaemonSet, which tolerates its taints, nor one that is over.
func isEvictable(pod *corev1.Pod) bool {
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(pod)
	return !static && (owner == nil || owner.Kind != "DaemonSet") && pod.DeletionTimestamp == nil &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// noPods reports whether a Node had no pods whose eviction could be expected.
func noPods(expectation v1alpha1.DisruptionExpectation, node *v1alpha1.DisruptedNode) bool {
	return expectation.Type == v1alpha1.ExpectPodsEvicted && node.Pods != nil && *node.Pods == 0
}

// metAt is since when an expectation is met on a Node: by the time that the object itself has, or since now. It is zero while it is
// not met; known is false if what it rests on could not be read.
func (w *World) metAt(expectation v1alpha1.DisruptionExpectation, disrupted *v1alpha1.DisruptedNode) (at time.Time, known bool) {
	switch expectation.Type {
	case v1alpha1.ExpectCondition:
		return w.conditionSince(disrupted.Name, expectation.Condition), true
	case v1alpha1.ExpectTaint:
		return w.taintSince(disrupted.Name, expectation.Taint), true
	case v1alpha1.ExpectPodsEvicted:
		pods, known := w.Evictable[disrupted.Name]
		if !known || pods > 0 {
			return time.Time{}, known
		}
		return w.Now, true
	case v1alpha1.ExpectMachineReplaced:
		return w.replacedSince(disrupted.Name), true
	}
	return time.Time{}, true
}

func (w *World) conditionSince(name string, want *v1alpha1.ExpectedCondition) time.Time {
	node := w.Nodes[name]
	if node == nil || want == nil {
		return time.Time{}
	}
	status := corev1.ConditionStatus(cmp.Or(want.Status, metav1.ConditionTrue))
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; string(c.Type) == want.Type && c.Status == status {
			return w.changedAt(c.LastTransitionTime)
		}
	}
	return time.Time{}
}

func (w *World) taintSince(name string, want *v1alpha1.ExpectedTaint) time.Time {
	node := w.Nodes[name]
	if node == nil || want == nil {
		return time.Time{}
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Key != want.Key || want.Effect != "" && string(t.Effect) != want.Effect {
			continue
		}
		if t.TimeAdded == nil {
			return w.Now
		}
		return w.changedAt(*t.TimeAdded)
	}
	return time.Time{}
}

func (w *World) replacedSince(name string) time.Time {
	for i := range w.Machines {
		if machine := &w.Machines[i]; machine.Name == name {
			if machine.DeletionTimestamp == nil {
				return time.Time{}
			}
			return w.changedAt(*machine.DeletionTimestamp)
		}
	}
	return w.Now
}

// changedAt is the time that an object has for a change, or now if it has none or one that is yet to come.
func (w *World) changedAt(t metav1.Time) time.Time {
	if t.IsZero() || t.After(w.Now) {
		return w.Now
	}
	return t.Time
}

// expectationResults counts the Nodes on which each expectation is met. When the run is over, an expectation is unknown on a Node that was
// hit and of which the agent could not see enough in time, and missed on one that was not hit at all.
func expectationResults(run *v1alpha1.NodeDisruptionRun, disrupted []v1alpha1.DisruptedNode, over bool) []v1alpha1.ExpectationResult {
	var counts []v1alpha1.ExpectationResult
	for i, expectation := range run.Spec.Expectations {
		result := v1alpha1.ExpectationResult{Type: expectation.Type}
		for j := range disrupted {
			switch node := &disrupted[j]; {
			case slices.Contains(node.Met, int32(i)):
				result.Met++
			case slices.Contains(node.Missed, int32(i)):
				result.Missed++
			case slices.Contains(node.Unknown, int32(i)):
				result.Unknown++
			case noPods(expectation, node):
			case !over:
				result.Pending++
			case node.InjectedAt != nil:
				result.Unknown++
			default:
				result.Missed++
			}
		}
		counts = append(counts, result)
	}
	return counts
}

// verdictOf says whether the expectations were met. One that concerned no Node when the run is over was missed.
func verdictOf(run *v1alpha1.NodeDisruptionRun, status *v1alpha1.NodeDisruptionRunStatus) v1alpha1.DisruptionVerdict {
	var open, unknown bool
	for i := range status.Expectations {
		result := &status.Expectations[i]
		if result.Missed > 0 {
			return v1alpha1.DisruptionMissed
		}
		unknown = unknown || result.Unknown > 0
		open = open || result.Pending > 0 || result.Met+result.Unknown == 0
	}
	switch {
	case unknown && !open:
		return v1alpha1.DisruptionUnknown
	case len(run.Spec.Expectations) == 0:
		return ""
	case len(status.Expectations) > 0 && !open:
		return v1alpha1.DisruptionPassed
	case isOver(status.Phase):
		return v1alpha1.DisruptionMissed
	default:
		return ""
	}
}
