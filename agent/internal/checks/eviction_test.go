package checks

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
)

// podState is what a pod of a case is.
type podState string

const (
	isReady, isUnready, isPending podState = "ready", "unready", "pending"
	isSucceeded, isLeaving        podState = "succeeded", "leaving"
)

// put puts a pod of an app in a state on a Node.
func (b *env) put(node, name, app string, state podState) {
	b.T.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{"app": app, "all": "yes"}}}
	pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}}
	b.create(pod)
	if state == isPending {
		return
	}
	b.setReady(name, state == isReady || state == isLeaving)
	switch state {
	case isSucceeded:
		b.Eventually(func() error {
			b.ExpectExists(pod)
			pod.Status.Phase = corev1.PodSucceeded
			return b.Client.Status().Update(b.T.Context(), pod)
		}).WithTimeout(agenttest.Wait).Should(Succeed())
	case isLeaving:
		b.ExpectDeleted(pod)
	case isReady, isUnready, isPending:
	}
}

func (b *env) budgetOf(name string, selector map[string]string, spec policyv1.PodDisruptionBudgetSpec) {
	b.T.Helper()
	spec.Selector = &metav1.LabelSelector{MatchLabels: selector}
	b.create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}, Spec: spec})
	b.Eventually(func(g Gomega) {
		budget := &policyv1.PodDisruptionBudget{}
		g.Expect(b.Client.Get(b.T.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, budget)).To(Succeed())
		g.Expect(budget.Status.Conditions).NotTo(BeEmpty())
		g.Expect(budget.Status.ObservedGeneration).To(Equal(budget.Generation))
		if spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int {
			g.Expect(budget.Status.ExpectedPods).To(BeNumerically(">", 0))
		}
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the disruption controller")
}

// TestTheCheckAndTheEvictionAPIAgree asks both about the same pods. The check must be False if, and only if, the API refuses a pod.
// Claim: Budgets are asked by dry-run evictions; nothing is evicted. Broken: a budget that counts no disruption as allowed is named without that question. Also: TestTheCheckEvictsNothing, TestTwoBudgetsForOnePodAreNamed; agent/internal/freeze TestADryRunOfAnEvictionPassesWhileFrozen.
// Edge case: A preflight blamed budgets for Pending pods.
func TestTheCheckAndTheEvictionAPIAgree(t *testing.T) {
	one, two, four := ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromInt32(2)), ptr.To(intstr.FromInt32(4))
	percent := ptr.To(intstr.FromString("50%"))
	always := ptr.To(policyv1.AlwaysAllow)
	for name, test := range map[string]struct {
		pods []podState
		spec policyv1.PodDisruptionBudgetSpec
		says string
	}{
		"a Pending pod that is wanted":                 {[]podState{isPending}, policyv1.PodDisruptionBudgetSpec{MinAvailable: one}, ""},
		"Pending pods, all wanted":                     {[]podState{isPending, isPending, isPending, isPending}, policyv1.PodDisruptionBudgetSpec{MinAvailable: four}, ""},
		"a Ready pod beside a Pending one":             {[]podState{isPending, isReady}, policyv1.PodDisruptionBudgetSpec{MinAvailable: two}, "requires 2 healthy pods of 2"},
		"a pod that is not Ready":                      {[]podState{isUnready}, policyv1.PodDisruptionBudgetSpec{MinAvailable: one}, "requires 1 healthy pods of 1"},
		"a pod that is not Ready, which is allowed":    {[]podState{isUnready}, policyv1.PodDisruptionBudgetSpec{MinAvailable: one, UnhealthyPodEvictionPolicy: always}, ""},
		"a Ready one beside one that is allowed to go": {[]podState{isUnready, isReady}, policyv1.PodDisruptionBudgetSpec{MinAvailable: two, UnhealthyPodEvictionPolicy: always}, "requires 2 healthy pods of 2"},
		"a pod that has ended beside a Pending one":    {[]podState{isSucceeded, isPending}, policyv1.PodDisruptionBudgetSpec{MinAvailable: one}, ""},
		"a pod that is leaving beside a Pending one":   {[]podState{isLeaving, isPending}, policyv1.PodDisruptionBudgetSpec{MinAvailable: two}, ""},
		"a budget that cannot count its pod":           {[]podState{isReady}, policyv1.PodDisruptionBudgetSpec{MinAvailable: percent}, "without a controller"},
		"the same with a Pending pod":                  {[]podState{isPending}, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: one}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			node := b.node("own", true)
			for i, state := range test.pods {
				b.put(node, "p-"+string(rune('a'+i)), "app", state)
			}
			b.budgetOf("app", map[string]string{"app": "app"}, test.spec)
			b.budgets(0)
			found := b.budgets(settle)
			if test.says == "" {
				b.Expect(found.Status).To(Equal(metav1.ConditionTrue), found.Message)
			} else {
				b.Expect(found.Status).To(Equal(metav1.ConditionFalse))
				b.Expect(found.Message).To(ContainSubstring(test.says))
			}
			b.Expect(b.refusesAny()).To(Equal(test.says != ""), "the eviction API says so too")
		})
	}
}

// refusesAny reports whether the API refuses to evict any pod of the namespace. None may have been evicted before.
func (b *env) refusesAny() bool {
	b.T.Helper()
	pods := &corev1.PodList{}
	b.Expect(b.Client.List(b.T.Context(), pods, client.InNamespace(b.namespace))).To(Succeed())
	for i := range pods.Items {
		pod := &pods.Items[i]
		if err := b.Client.SubResource("eviction").Create(b.T.Context(), pod, &policyv1.Eviction{}, client.DryRunAll); err != nil {
			return true
		}
	}
	return false
}

func TestTheCheckEvictsNothing(t *testing.T) {
	b := newEnv(t)
	node := b.node("own", true)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		b.put(node, name, "app", isPending)
	}
	b.budgetOf("app", map[string]string{"app": "app"}, policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(5))})
	b.asked()
	b.Expect(b.budgets(0).Status).To(Equal(metav1.ConditionTrue))
	b.Expect(b.asked()).To(HaveLen(3+mostAsked), "few are asked for")
	pods := &corev1.PodList{}
	b.Expect(b.Client.List(t.Context(), pods, client.InNamespace(b.namespace))).To(Succeed())
	b.Expect(pods.Items).To(HaveLen(5))
	b.Expect(pods.Items).To(HaveEach(HaveField("DeletionTimestamp", BeNil())))
}

func TestTwoBudgetsForOnePodAreNamed(t *testing.T) {
	b := newEnv(t)
	node := b.node("own", true)
	b.put(node, "a", "app", isReady)
	b.put(node, "b", "other", isReady)
	b.budgetOf("app", map[string]string{"app": "app"}, policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))})
	b.budgetOf("all", map[string]string{"all": "yes"}, policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))})
	found := b.budgets(0)
	b.Expect(found.Status).To(Equal(metav1.ConditionFalse))
	b.Expect(found.Message).To(ContainSubstring("app is one of several that select the same pod"))
}
