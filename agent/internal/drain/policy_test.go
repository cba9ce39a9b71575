package drain

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func pod(name string, deletedAgo time.Duration) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "a"}}}
	if deletedAgo >= 0 {
		p.DeletionTimestamp = &metav1.Time{Time: now.Add(-deletedAgo)}
	}
	return p
}

func names(pods []corev1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

func TestSplit(t *testing.T) {
	pods := []corev1.Pod{pod("stays", -1), pod("leaves", time.Minute), pod("stuck", time.Hour)}
	since := func(t time.Time) time.Duration { return now.Sub(t) }
	evict, leaving := Split(pods, false, since)
	if names(evict) != "stays" || names(leaving) != "leaves stuck" {
		t.Errorf("on a node that is well: evict %q, wait for %q", names(evict), names(leaving))
	}
	evict, leaving = Split(pods, true, since)
	if names(evict) != "stays" || names(leaving) != "leaves" {
		t.Errorf("on a node whose kubelet is silent: evict %q, wait for %q", names(evict), names(leaving))
	}
	_, leaving = Split(pods, true, func(t time.Time) time.Duration { return now.Sub(t) - 59*time.Minute })
	if names(leaving) != "leaves stuck" {
		t.Errorf("after a freeze of 59 minutes: wait for %q", names(leaving))
	}
}

func TestJudge(t *testing.T) {
	const timeout = time.Hour
	refused := []Refusal{{"ns/b", "would violate the budget"}, {"ns/a", "too"}}
	tests := map[string]struct {
		round           Round
		elapsed         time.Duration
		over            bool
		reason, message string
		recheck         time.Duration
	}{
		"should be over when nothing is left":            {Round{}, 0, true, v1alpha1.ReasonDrained, "", 0},
		"should be over when nothing is left at the end": {Round{}, 2 * timeout, true, v1alpha1.ReasonDrained, "", 0},
		"should wait for what leaves":                    {Round{Leaving: []string{"ns/a"}}, 0, false, v1alpha1.ReasonDraining, "waiting for pod ns/a", time.Second},
		"should look less often as time goes by":         {Round{Leaving: []string{"ns/a"}}, 20 * time.Second, false, v1alpha1.ReasonDraining, "waiting for pod ns/a", 5 * time.Second},
		"should look at least four times a minute":       {Round{Leaving: []string{"ns/a"}}, timeout / 2, false, v1alpha1.ReasonDraining, "waiting for pod ns/a", 15 * time.Second},
		"should look exactly at the deadline":            {Round{Leaving: []string{"ns/a"}}, timeout - 7*time.Second, false, v1alpha1.ReasonDraining, "waiting for pod ns/a", 7 * time.Second},
		"should say why a pod was refused":               {Round{Refused: refused, Leaving: []string{"ns/c"}}, 0, false, v1alpha1.ReasonDraining, "waiting for 3 pods (ns/a, ns/b, ns/c): too", time.Second},
		"should give up at the deadline":                 {Round{Refused: refused}, timeout, true, v1alpha1.ReasonDrainTimedOut, "the drain timed out after 1h0m0s: 2 pods (ns/a, ns/b) left", 0},
		"should continue at once with pods that had no turn": {
			Round{Refused: refused[:1], More: true}, timeout / 2, false, v1alpha1.ReasonDraining, "waiting for pod ns/b: would violate the budget", time.Second,
		},
		"should give each pod its turn at the deadline, too": {
			Round{Refused: refused[:1], More: true}, timeout, false, v1alpha1.ReasonDraining, "waiting for pod ns/b: would violate the budget", time.Second,
		},
		"should name few of many": {
			Round{Leaving: []string{"ns/a", "ns/b", "ns/c", "ns/d", "ns/e", "ns/f", "ns/g"}}, 0, false, v1alpha1.ReasonDraining,
			"waiting for 7 pods (ns/a, ns/b, ns/c, ns/d, ns/e and 2 more)", time.Second,
		},
		"should name five pods": {
			Round{Leaving: []string{"ns/a", "ns/b", "ns/c", "ns/d", "ns/e"}}, 0, false, v1alpha1.ReasonDraining, "waiting for 5 pods (ns/a, ns/b, ns/c, ns/d, ns/e)", time.Second,
		},
		"should name a misconfigured budget": {
			Round{Refused: refused[:1], Misconfigured: []Budget{{"ns/pdb", "allows nothing"}}}, 0, false, v1alpha1.ReasonMisconfiguredBudget,
			"PodDisruptionBudget ns/pdb allows nothing: change it, or the drain ends at its timeout; waiting for pod ns/b", time.Second,
		},
		"should give up on a misconfigured budget at the deadline, too": {
			Round{Refused: refused[:1], Misconfigured: []Budget{{"ns/pdb", "allows nothing"}}}, timeout, true, v1alpha1.ReasonDrainTimedOut,
			"the drain timed out after 1h0m0s: pod ns/b left", 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.round.Refused = slices.Clone(test.round.Refused)
			got := Evaluate(test.round, test.elapsed, timeout)
			want := Report{Over: test.over, Status: metav1.ConditionFalse, Reason: test.reason, Message: test.message, Recheck: test.recheck}
			if test.reason == v1alpha1.ReasonDrained {
				want.Status = metav1.ConditionTrue
			}
			if got != want {
				t.Errorf("\n got %+v\nwant %+v", got, want)
			}
		})
	}
}

// However a drain goes, it ends at its deadline and not before something is left undone, and is looked at in time.
func TestADrainEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timeout := time.Duration(rapid.IntRange(0, 7200).Draw(t, "timeout")) * time.Second
		round := Round{Leaving: []string{"ns/a"}}
		if rapid.Bool().Draw(t, "refused") {
			round = Round{Refused: []Refusal{{"ns/a", "no"}}, Misconfigured: []Budget{{"ns/pdb", "allows nothing"}}}
		}
		looks := 0
		for elapsed := time.Duration(0); ; looks++ {
			report := Evaluate(round, elapsed, timeout)
			if report.Over {
				if elapsed != timeout {
					t.Fatalf("over after %s of %s", elapsed, timeout)
				}
				break
			}
			if report.Recheck <= 0 || report.Recheck > maxRecheck {
				t.Fatalf("looks again after %s", report.Recheck)
			}
			elapsed += report.Recheck
		}
		if looks > 20+int(timeout/maxRecheck) {
			t.Fatalf("looked %d times in %s", looks, timeout)
		}
	})
}

func TestMisconfigured(t *testing.T) {
	number, percentage := func(n int) *intstr.IntOrString { return ptr.To(intstr.FromInt(n)) }, func(p string) *intstr.IntOrString { return ptr.To(intstr.FromString(p)) }
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	budget := func(name string, change func(*policyv1.PodDisruptionBudget)) policyv1.PodDisruptionBudget {
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1}}
		b.Spec.Selector = selector
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 3, CurrentHealthy: 3, DesiredHealthy: 2}
		change(&b)
		return b
	}
	tests := map[string]struct {
		budgets []policyv1.PodDisruptionBudget
		want    string
	}{
		"should not mind a budget that is used up": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MinAvailable, b.Status.CurrentHealthy = number(2), 2
		})}, ""},
		"should find maxUnavailable 0": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = number(0) })},
			"ns/b allows no disruption at all (maxUnavailable: 0)"},
		"should find maxUnavailable 0%": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = percentage("0%") })},
			"ns/b allows no disruption at all (maxUnavailable: 0%)"},
		"should find minAvailable 100%": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = percentage("100%") })},
			"ns/b allows no disruption at all (minAvailable: 100%)"},
		"should find a budget that wants all pods": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MinAvailable, b.Status.DesiredHealthy = number(3), 3
		})}, "ns/b allows no disruption at all (it requires 3 healthy pods of 3)"},
		"should not believe an old status": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Status.DesiredHealthy, b.Generation = 3, 2
		})}, ""},
		"should not judge a budget that knows no pods": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1}
		})}, ""},
		"should leave other pods' budgets": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MaxUnavailable, b.Spec.Selector = number(0), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}
		})}, ""},
		"should leave other namespaces' budgets": {[]policyv1.PodDisruptionBudget{budget("b", func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MaxUnavailable, b.Namespace = number(0), "other"
		})}, ""},
		"should find two budgets for one pod": {[]policyv1.PodDisruptionBudget{
			budget("b", func(*policyv1.PodDisruptionBudget) {}), budget("c", func(*policyv1.PodDisruptionBudget) {}),
		}, "ns/b is one of several that select the same pod, which no eviction can satisfy; ns/c is one of several that select the same pod, which no eviction can satisfy"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, b := range Misconfigured([]corev1.Pod{pod("p", -1), pod("q", -1)}, test.budgets) {
				found = append(found, b.Name+" "+b.Why)
			}
			if got := strings.Join(found, "; "); got != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
}
