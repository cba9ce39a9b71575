package policy

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Budget is a PodDisruptionBudget with which no eviction is possible, not now and not later.
type Budget struct {
	// Name is "namespace/name".
	Name string
	// Why goes on from the name.
	Why string
}

// Misconfigured returns the budgets, of the pods' namespaces, that will not allow any of pods to be evicted
// however healthy its fellows are. A budget that is only used up for the moment is not among them.
func Misconfigured(pods []corev1.Pod, budgets []policyv1.PodDisruptionBudget) []Budget {
	found := map[string]Budget{}
	for i := range pods {
		selecting := selecting(&pods[i], budgets)
		for _, budget := range selecting {
			name := budget.Namespace + "/" + budget.Name
			if why := never(budget); why != "" {
				found[name] = Budget{Name: name, Why: why}
			} else if len(selecting) > 1 {
				found[name] = Budget{Name: name, Why: "is one of several that select the same pod, which no eviction can satisfy"}
			}
		}
	}
	var all []Budget
	for _, budget := range found {
		all = append(all, budget)
	}
	slices.SortFunc(all, func(a, b Budget) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func selecting(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) []*policyv1.PodDisruptionBudget {
	var selecting []*policyv1.PodDisruptionBudget
	for i := range budgets {
		budget := &budgets[i]
		if budget.Namespace != pod.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			selecting = append(selecting, budget)
		}
	}
	return selecting
}

// never says why budget allows no disruption at all; empty if it may.
func never(budget *policyv1.PodDisruptionBudget) string {
	spec, status := budget.Spec, budget.Status
	switch {
	case isNumber(spec.MaxUnavailable, 0) || isPercentage(spec.MaxUnavailable, "0%"):
		return fmt.Sprintf("allows no disruption at all (maxUnavailable: %s)", spec.MaxUnavailable)
	case isPercentage(spec.MinAvailable, "100%"):
		return "allows no disruption at all (minAvailable: 100%)"
	case status.ObservedGeneration == budget.Generation && status.ExpectedPods > 0 && status.DesiredHealthy >= status.ExpectedPods:
		return fmt.Sprintf("allows no disruption at all (it wants %d healthy pods of %d)", status.DesiredHealthy, status.ExpectedPods)
	}
	return ""
}

func isNumber(value *intstr.IntOrString, number int32) bool {
	return value != nil && value.Type == intstr.Int && value.IntVal == number
}

func isPercentage(value *intstr.IntOrString, percentage string) bool {
	return value != nil && value.Type == intstr.String && value.StrVal == percentage
}
