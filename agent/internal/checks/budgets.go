package checks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/drain"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const (
	// settle is how long a budget that may allow a disruption later has to allow none before it is named: drains use budgets
	// up for moments.
	settle = 30 * time.Second
	// mostNamed is how many budgets are named, and page how many pods are read at once.
	mostNamed, page = 3, 500
)

// checkBudgets finds the disruption budgets that allow no eviction from the Nodes of the cluster's Machines.
func (c *Checker) checkBudgets(ctx context.Context, namespace string, now time.Time) (metav1.Condition, error) {
	nodes, err := c.ownNodes(ctx, namespace)
	if err != nil {
		return metav1.Condition{}, err
	}
	list, err := c.Target.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return metav1.Condition{}, fmt.Errorf("listing disruption budgets: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var named []string
	for _, candidate := range c.exhaustedBudgets(list.Items, now) {
		pods, err := c.coveredPods(ctx, candidate.budget, nodes)
		if err != nil {
			return metav1.Condition{}, err
		}
		why, err := c.findRefusal(ctx, pods)
		if err != nil {
			return metav1.Condition{}, err
		}
		if why == refusedForNow && candidate.never != "" {
			why = candidate.never
		}
		if why != "" {
			named = append(named, fmt.Sprintf("PodDisruptionBudget %s/%s %s", candidate.budget.Namespace, candidate.budget.Name, why))
		}
		if len(named) > mostNamed {
			named[mostNamed] = "and there are more"
			break
		}
	}
	if len(named) == 0 {
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSufficientPods}, nil
	}
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInsufficientPods, Message: strings.Join(named, "; ")}, nil
}

// refusedForNow is said of a budget that may allow a disruption later.
const refusedForNow = "allows no disruption for now"

// candidate is a budget that has counted no disruption as allowed for long enough. Whether it holds a pod is another question.
type candidate struct {
	budget *policyv1.PodDisruptionBudget
	// never is why it will not allow one later either, unless it is changed; empty if it may.
	never string
}

// exhaustedBudgets are those of all budgets, which it remembers.
func (c *Checker) exhaustedBudgets(all []policyv1.PodDisruptionBudget, now time.Time) []candidate {
	var found []candidate
	before := c.exhausted
	c.exhausted = map[types.UID]time.Time{}
	for i := range all {
		budget := &all[i]
		if !isExhausted(budget) {
			continue
		}
		since, known := before[budget.UID]
		if !known {
			since = now
		}
		c.exhausted[budget.UID] = since
		if why := drain.Never(budget); why != "" {
			found = append(found, candidate{budget, why})
		} else if now.Sub(since) >= settle {
			found = append(found, candidate{budget, explainUncounted(budget)})
		}
	}
	return found
}

// isExhausted reports whether a budget counts no disruption as allowed now. One that counts no pod, or that the disruption controller
// has not looked at since its last change, may hold pods as well.
func isExhausted(budget *policyv1.PodDisruptionBudget) bool {
	return budget.Status.DisruptionsAllowed == 0 || budget.Status.ObservedGeneration != budget.Generation
}

// explainUncounted says why a budget holds pods that it does not count; empty if it counts them.
func explainUncounted(budget *policyv1.PodDisruptionBudget) string {
	allowed := meta.FindStatusCondition(budget.Status.Conditions, policyv1.DisruptionAllowedCondition)
	switch {
	case allowed != nil && allowed.Reason == policyv1.SyncFailedReason:
		return "cannot be computed, so it allows no disruption (" + allowed.Message + ")"
	case budget.Status.ObservedGeneration != budget.Generation:
		return "has not been observed by the cluster's disruption controller, so it allows no disruption"
	case budget.Status.ExpectedPods == 0:
		return "allows no disruption of pods without a controller, because it cannot count them: set minAvailable to a number"
	}
	return ""
}

// ownNodes are the names of the Nodes of the cluster's Machines.
func (c *Checker) ownNodes(ctx context.Context, namespace string) (sets.Set[string], error) {
	list := &corev1.NodeList{}
	if err := c.Nodes.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	names := sets.New[string]()
	for i := range list.Items {
		if list.Items[i].Annotations[v1alpha1.NodeClusterNamespaceAnnotation] == namespace {
			names.Insert(list.Items[i].Name)
		}
	}
	return names, nil
}

// coveredPods are pods that a budget selects and a drain of one of nodes would evict, some of each class.
func (c *Checker) coveredPods(ctx context.Context, budget *policyv1.PodDisruptionBudget, nodes sets.Set[string]) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil || budget.Spec.Selector == nil || nodes.Len() == 0 {
		return nil, nil //nolint:nilerr // such a selector selects no pod
	}
	options := metav1.ListOptions{LabelSelector: selector.String(), Limit: page}
	var found []corev1.Pod
	counts := map[class]int{}
	for {
		pods, err := c.Target.CoreV1().Pods(budget.Namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing the pods of disruption budget %s/%s: %w", budget.Namespace, budget.Name, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if of := classOf(pod); nodes.Has(pod.Spec.NodeName) && isEvictable(pod) && counts[of] < mostAsked {
				counts[of]++
				found = append(found, *pod)
			}
		}
		if options.Continue = pods.Continue; options.Continue == "" || counts[ready] == mostAsked {
			return found, nil
		}
	}
}

// isEvictable reports whether a drain evicts a pod, and a budget may hold that up.
func isEvictable(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !mirror && (owner == nil || owner.Kind != "DaemonSet") && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}
