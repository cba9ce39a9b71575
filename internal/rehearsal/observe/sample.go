// Package observe makes of what a simulated cluster looked like from moment to moment the course of its upgrade: which drain took how
// long, which budget held it, which workloads lost their pods. It reads no clock and asks no API server.
package observe

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/rehearsal/shape"
)

// Sample is how a simulated cluster looks at one moment.
type Sample struct {
	At time.Time
	// Answered is that its API server has answered; without it, Pods and Budgets are as they were.
	Answered bool
	Machines []*v1alpha1.Machine
	Pods     []*corev1.Pod
	Budgets  []*policyv1.PodDisruptionBudget
}

// draining is how the drain of a Machine stands.
type draining int

const (
	notDraining draining = iota
	isDraining
	isDrained
	hasTimedOut
)

// drainOf says how the drain of a Machine stands, by its condition; nil if there is none that counts. A short drain may come and go without
// one: for a Machine that is being deleted, see Timeline.
func drainOf(machine *v1alpha1.Machine) (draining, *metav1.Condition) {
	drained := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineDrainedCondition)
	switch {
	case drained == nil, !machine.DeletionTimestamp.IsZero() && drained.ObservedGeneration != machine.Generation:
		return notDraining, nil
	case drained.Status == metav1.ConditionTrue:
		return isDrained, drained
	case drained.Reason == v1alpha1.ReasonDrainTimedOut:
		return hasTimedOut, drained
	case drained.Reason == v1alpha1.ReasonAwaitingHook:
		return notDraining, drained
	}
	return isDraining, drained
}

// Never says why a budget allows no eviction of any of its pods, however long a drain waits; empty if it may.
func Never(budget *policyv1.PodDisruptionBudget) string {
	spec, status := budget.Spec, budget.Status
	switch {
	case spec.MaxUnavailable != nil && (spec.MaxUnavailable.String() == "0" || spec.MaxUnavailable.String() == "0%"):
		return "maxUnavailable: " + spec.MaxUnavailable.String()
	case spec.MinAvailable != nil && spec.MinAvailable.String() == "100%":
		return "minAvailable: 100%"
	case status.ObservedGeneration == budget.Generation && status.ExpectedPods > 0 && status.DesiredHealthy >= status.ExpectedPods:
		return "it requires as many healthy pods as there are"
	}
	return ""
}

// holds reports whether a budget refuses the eviction of a pod now.
func holds(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil || budget.Namespace != pod.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	if budget.Status.DisruptionsAllowed > 0 && budget.Status.ObservedGeneration == budget.Generation {
		return false
	}
	if !isReady(pod) {
		policy := budget.Spec.UnhealthyPodEvictionPolicy
		mayGo := policy != nil && *policy == policyv1.AlwaysAllow
		return !mayGo && (budget.Status.DesiredHealthy <= 0 || budget.Status.CurrentHealthy < budget.Status.DesiredHealthy)
	}
	return true
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isDrainedAway reports whether a drain takes a pod away: those of DaemonSets stay.
func isDrainedAway(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && (owner == nil || owner.Kind != "DaemonSet")
}

// load is what a drain of a Node has to deal with.
type load struct {
	// staying pods are to be evicted, leaving ones are on their way out.
	staying, leaving int
	// refusals counts the staying pods that each budget refuses to let go now.
	refusals map[string]int
}

func (s *Sample) loadOf(node string) load {
	l := load{refusals: map[string]int{}}
	for _, pod := range s.Pods {
		if pod.Spec.NodeName != node || node == "" || !isDrainedAway(pod) {
			continue
		}
		if pod.DeletionTimestamp != nil {
			l.leaving++
			continue
		}
		l.staying++
		for _, budget := range s.Budgets {
			if holds(budget, pod) {
				l.refusals[budget.Namespace+"/"+budget.Name]++
			}
		}
	}
	return l
}

// Unscheduled is pods of a workload that have no Node, for the same reason.
type Unscheduled struct {
	Workload string `json:"workload"`
	Pods     int    `json:"pods"`
	// Reason is what the scheduler says of one of them.
	Reason string `json:"reason"`
}

// WorkloadPods counts the pods of a workload.
type WorkloadPods struct{ Total, Scheduled, Ready int }

// CountPods counts the pods of each workload that are not being deleted.
func (s *Sample) CountPods() map[string]WorkloadPods {
	counts := map[string]WorkloadPods{}
	for _, pod := range s.Pods {
		id := pod.Annotations[shape.WorkloadAnnotation]
		if id == "" || pod.DeletionTimestamp != nil {
			continue
		}
		one := counts[id]
		one.Total++
		if pod.Spec.NodeName != "" {
			one.Scheduled++
		}
		if isReady(pod) {
			one.Ready++
		}
		counts[id] = one
	}
	return counts
}

// ListUnscheduled are the pods without a Node.
func (s *Sample) ListUnscheduled() []Unscheduled {
	byWorkload := map[string]Unscheduled{}
	for _, pod := range s.Pods {
		id := pod.Annotations[shape.WorkloadAnnotation]
		if id == "" || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		one := byWorkload[id]
		one.Workload = id
		one.Pods++
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Message != "" {
				one.Reason = condition.Message
			}
		}
		byWorkload[id] = one
	}
	var all []Unscheduled
	for _, id := range slices.Sorted(maps.Keys(byWorkload)) {
		all = append(all, byWorkload[id])
	}
	return all
}
