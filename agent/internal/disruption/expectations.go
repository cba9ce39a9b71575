package disruption

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodes "github.com/hollowfleet/hollowfleet/agent/internal/node"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// expect notes which expectations are met on a Node, and which can not be any more. What is noted stays.
func (w *World) expect(run *v1alpha1.NodeDisruptionRun, node *v1alpha1.DisruptedNode) {
	if w.Frozen || node.InjectedAt == nil {
		return
	}
	for i, expectation := range run.Spec.Expectations {
		number := int32(i)
		if expectation.Type == v1alpha1.ExpectPodsEvicted && node.Pods == nil {
			if pods, known := w.Evictable[node.Name]; known {
				node.Pods = &pods
			}
		}
		if slices.Contains(node.Met, number) || slices.Contains(node.Missed, number) || noPods(expectation, node) {
			continue
		}
		late := w.Now.After(node.InjectedAt.Add(expectation.Within.Duration))
		switch met := w.isMet(expectation, node); {
		case met && !late:
			node.Met = append(node.Met, number)
		case late:
			node.Missed = append(node.Missed, number)
		}
	}
}

// evictionsExpected are the names of the Nodes whose pods have to be counted.
func (w *World) evictionsExpected() []string {
	names := map[string]bool{}
	for i := range w.Runs {
		run := &w.Runs[i]
		expected := slices.IndexFunc(run.Spec.Expectations, func(e v1alpha1.DisruptionExpectation) bool { return e.Type == v1alpha1.ExpectPodsEvicted })
		if expected < 0 || run.Status.StartTime == nil || w.Now.Before(run.Status.StartTime.Time) || over(run.Status.Phase) {
			continue
		}
		for j := range run.Status.Nodes {
			if node := &run.Status.Nodes[j]; !slices.Contains(node.Met, int32(expected)) && !slices.Contains(node.Missed, int32(expected)) && (node.Pods == nil || *node.Pods > 0) {
				names[node.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// isEvictable tells whether the node-lifecycle controller would evict a pod, and has not yet: neither a static pod nor one of a
// DaemonSet, which tolerates its taints, nor one that is over.
func isEvictable(pod *corev1.Pod) bool {
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(pod)
	return !static && (owner == nil || owner.Kind != "DaemonSet") && pod.DeletionTimestamp == nil &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// noPods tells whether a Node had no pods whose eviction could be expected.
func noPods(expectation v1alpha1.DisruptionExpectation, node *v1alpha1.DisruptedNode) bool {
	return expectation.Type == v1alpha1.ExpectPodsEvicted && node.Pods != nil && *node.Pods == 0
}

// isMet tells whether an expectation is met on a Node now.
func (w *World) isMet(expectation v1alpha1.DisruptionExpectation, disrupted *v1alpha1.DisruptedNode) bool {
	node := w.Nodes[disrupted.Name]
	switch expectation.Type {
	case v1alpha1.ExpectCondition:
		want := expectation.Condition
		return want != nil && node != nil && nodes.HasCondition(node, corev1.NodeConditionType(want.Type), corev1.ConditionStatus(cmp.Or(want.Status, metav1.ConditionTrue)))
	case v1alpha1.ExpectTaint:
		want := expectation.Taint
		return want != nil && node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == want.Key && (want.Effect == "" || string(t.Effect) == want.Effect)
		})
	case v1alpha1.ExpectPodsEvicted:
		pods, known := w.Evictable[disrupted.Name]
		return known && pods == 0
	case v1alpha1.ExpectMachineReplaced:
		return !slices.ContainsFunc(w.Machines, func(m v1alpha1.Machine) bool { return m.Name == disrupted.Name && m.DeletionTimestamp == nil })
	}
	return false
}

// results counts the Nodes on which each expectation is met.
func results(run *v1alpha1.NodeDisruptionRun, disrupted []v1alpha1.DisruptedNode) []v1alpha1.ExpectationResult {
	var counts []v1alpha1.ExpectationResult
	for i, expectation := range run.Spec.Expectations {
		result := v1alpha1.ExpectationResult{Type: expectation.Type}
		for j := range disrupted {
			switch node := &disrupted[j]; {
			case slices.Contains(node.Met, int32(i)):
				result.Met++
			case slices.Contains(node.Missed, int32(i)):
				result.Missed++
			case !noPods(expectation, node):
				result.Pending++
			}
		}
		counts = append(counts, result)
	}
	return counts
}

// verdict says whether the expectations were met. What is still open when the run is over was missed; so was an expectation
// that concerned no Node.
func verdict(run *v1alpha1.NodeDisruptionRun, status *v1alpha1.NodeDisruptionRunStatus) v1alpha1.DisruptionVerdict {
	var open bool
	for i := range status.Expectations {
		result := &status.Expectations[i]
		if over(status.Phase) {
			result.Missed, result.Pending = result.Missed+result.Pending, 0
		}
		if result.Missed > 0 {
			return v1alpha1.DisruptionMissed
		}
		open = open || result.Pending > 0 || result.Met == 0
	}
	switch {
	case len(run.Spec.Expectations) == 0:
		return ""
	case len(status.Expectations) > 0 && !open:
		return v1alpha1.DisruptionPassed
	case over(status.Phase):
		return v1alpha1.DisruptionMissed
	default:
		return ""
	}
}
