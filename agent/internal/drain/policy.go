// The judgement on a drain is pure: which pods are still waited for, which disruption budgets can never be kept, and when
// a drain is over. Pods, budgets and times come from the caller.

package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// abandonAfter is how long past its deletion a pod of a Node whose kubelet is silent is waited for. No kubelet
	// will ever say that it has ended.
	abandonAfter = 5 * time.Minute

	// The time to the next round grows with the time that a drain has taken.
	minRecheck, maxRecheck = time.Second, 15 * time.Second
	recheckShare           = 4

	// maxNamed bounds how many pods a message names.
	maxNamed = 5
)

// Round is what one round of a drain came to. Pods are written as "namespace/name".
type Round struct {
	// Evicted pods, and those that were on their way before, have not ended yet.
	Leaving []string
	// Refused pods could not be evicted now, with the reasons.
	Refused []Refusal
	// Misconfigured are the budgets that will never allow an eviction of a refused pod.
	Misconfigured []Budget
	// Returning are the owners whose pods come back to the Node.
	Returning []Returning
	// More: the round ended before its pods did. It had evicted enough, or some of Refused have not been tried at all.
	More bool
}

// Refusal is a pod that could not be evicted now.
type Refusal struct{ Pod, Why string }

// Report is the judgement on a drain.
type Report struct {
	// Over: the drain has come to its end, well or not, and what it was for continues.
	Over bool
	// Status, Reason and Message are those of the condition Drained.
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	// Recheck is when to look again, if it is not over.
	Recheck time.Duration
}

// Split tells apart the pods to evict now and those that are being deleted already. Pods of a Node whose
// kubelet is silent are in neither once they are given up. since returns the time since another that counts: a kubelet that
// was cut off has had no chance to say that a pod has ended.
func Split(pods []corev1.Pod, unreachable bool, since func(time.Time) time.Duration) (evict, leaving []corev1.Pod) {
	for _, pod := range pods {
		switch {
		case pod.DeletionTimestamp == nil:
			evict = append(evict, pod)
		case !unreachable || since(pod.DeletionTimestamp.Time) < abandonAfter:
			leaving = append(leaving, pod)
		}
	}
	return evict, leaving
}

// Evaluate tells where a drain stands that has taken elapsed of the time it may take, not counting frozen time. However late
// it starts, each pod is tried once: a round that could not try all is followed by another, and each takes many away.
func Evaluate(round Round, elapsed, timeout time.Duration) Report {
	left := remainingPods(round)
	switch {
	case len(left) == 0:
		return Report{Over: true, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained}
	case elapsed >= timeout && !round.More:
		return GivenUp(timeout, namePods(left)+" left")
	}
	report := Report{
		Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDraining,
		Message: "waiting for " + namePods(left),
		Recheck: min(clampDuration(elapsed/recheckShare, minRecheck, maxRecheck), timeout-elapsed),
	}
	if round.More {
		report.Recheck = minRecheck
	}
	if len(round.Misconfigured) > 0 {
		report.Reason = v1alpha1.ReasonMisconfiguredBudget
		report.Message = describeBudgets(round.Misconfigured) + ": change it, or the drain ends at its timeout; " + report.Message
	} else if len(round.Returning) > 0 {
		report.Reason = v1alpha1.ReasonPodsComeBack
		report.Message = comeBack(round.Returning) + "; " + report.Message
	} else if len(round.Refused) > 0 {
		slices.SortFunc(round.Refused, func(a, b Refusal) int { return cmp.Compare(a.Pod, b.Pod) })
		report.Message += ": " + round.Refused[0].Why
	}
	return report
}

// GivenUp is the end of a drain by its timeout.
func GivenUp(timeout time.Duration, how string) Report {
	return Report{
		Over: true, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDrainTimedOut,
		Message: fmt.Sprintf("the drain timed out after %s: %s", timeout, how),
	}
}

func remainingPods(round Round) []string {
	pods := slices.Clone(round.Leaving)
	for _, refusal := range round.Refused {
		pods = append(pods, refusal.Pod)
	}
	slices.Sort(pods)
	return pods
}

// namePods writes a list of pods that stays short.
func namePods(pods []string) string {
	if len(pods) == 1 {
		return "pod " + pods[0]
	}
	if len(pods) <= maxNamed {
		return fmt.Sprintf("%d pods (%s)", len(pods), strings.Join(pods, ", "))
	}
	return fmt.Sprintf("%d pods (%s and %d more)", len(pods), strings.Join(pods[:maxNamed], ", "), len(pods)-maxNamed)
}

func describeBudgets(budgets []Budget) string {
	var words []string
	for _, budget := range budgets {
		words = append(words, fmt.Sprintf("PodDisruptionBudget %s %s", budget.Name, budget.Why))
	}
	return strings.Join(words, "; ")
}

// comeBack says whose pods come back, and what to do.
func comeBack(owners []Returning) string {
	var words []string
	for _, owner := range owners[:min(len(owners), maxNamed)] {
		words = append(words, owner.String())
	}
	if more := len(owners) - maxNamed; more > 0 {
		words = append(words, fmt.Sprintf("so do those of %d more", more))
	}
	return strings.Join(words, "; ") + ": keep them off the Node, or scale their owner down, or the drain ends at its timeout"
}

func clampDuration(d, least, most time.Duration) time.Duration { return max(least, min(d, most)) }

// Budget is a PodDisruptionBudget with which no eviction is possible, not now and not later.
type Budget struct {
	// Name is "namespace/name".
	Name string
	// Why continues from the name.
	Why string
}

// Misconfigured returns the budgets, of the pods' namespaces, that will not allow any of pods to be evicted
// however healthy its fellows are. A budget that is only used up for the moment is not among them.
func Misconfigured(pods []corev1.Pod, budgets []policyv1.PodDisruptionBudget) []Budget {
	found := map[string]Budget{}
	for i := range pods {
		selecting := budgetsSelecting(&pods[i], budgets)
		for _, budget := range selecting {
			name := budget.Namespace + "/" + budget.Name
			if why := Never(budget); why != "" {
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

func budgetsSelecting(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) []*policyv1.PodDisruptionBudget {
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

// Never says why budget allows no disruption at all; empty if it may.
func Never(budget *policyv1.PodDisruptionBudget) string {
	spec, status := budget.Spec, budget.Status
	switch {
	case isNumber(spec.MaxUnavailable, 0) || isPercentage(spec.MaxUnavailable, "0%"):
		return fmt.Sprintf("allows no disruption at all (maxUnavailable: %s)", spec.MaxUnavailable)
	case isPercentage(spec.MinAvailable, "100%"):
		return "allows no disruption at all (minAvailable: 100%)"
	case status.ObservedGeneration == budget.Generation && status.ExpectedPods > 0 && status.DesiredHealthy >= status.ExpectedPods:
		return fmt.Sprintf("allows no disruption at all (it requires %d healthy pods of %d)", status.DesiredHealthy, status.ExpectedPods)
	}
	return ""
}

func isNumber(value *intstr.IntOrString, number int32) bool {
	return value != nil && value.Type == intstr.Int && value.IntVal == number
}

func isPercentage(value *intstr.IntOrString, percentage string) bool {
	return value != nil && value.Type == intstr.String && value.StrVal == percentage
}
