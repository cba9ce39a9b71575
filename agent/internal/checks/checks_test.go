package checks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestABudgetThatNeverAllowsADisruptionIsNamedAtOnce(t *testing.T) {
	b := newEnv(t)
	node := b.node("own", true)
	b.Expect(b.budgets(0)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Reason", v1alpha1.ReasonSufficientPods),
		HaveField("ObservedGeneration", BeEquivalentTo(7))))
	b.pod(node, "web-0", "web", true, nil)
	b.budget("web", 1, 0)
	found := b.budgets(0)
	b.Expect(found).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonInsufficientPods)))
	b.Expect(found.Message).To(Equal("PodDisruptionBudget " + b.namespace + "/web allows no disruption at all (it requires 1 healthy pods of 1)"))
	b.pod(node, "web-1", "web", true, nil)
	b.expectBudget("web", 1)
	b.Expect(b.budgets(0).Status).To(Equal(metav1.ConditionTrue), "it allows one")
}

// A drain uses a budget up until the evicted pod has a successor.
// Claim: A briefly used-up budget is not a problem, an impossible one is. Broken: it is named at once; neither is told from the other. Also: TestABudgetThatNeverAllowsADisruptionIsNamedAtOnce.
func TestABudgetThatIsUsedUpIsNamedWhenItStaysSo(t *testing.T) {
	b := newEnv(t)
	node := b.node("own", true)
	b.pod(node, "web-0", "web", true, nil)
	b.pod(node, "web-1", "web", false, nil)
	b.budget("web", 1, 0)
	b.Expect(b.budgets(0).Status).To(Equal(metav1.ConditionTrue), "for a moment only, as far as is known")
	b.Expect(b.budgets(settle - 1).Status).To(Equal(metav1.ConditionTrue))
	found := b.budgets(1)
	b.Expect(found.Status).To(Equal(metav1.ConditionFalse))
	b.Expect(found.Message).To(Equal("PodDisruptionBudget " + b.namespace + "/web allows no disruption for now"))

	b.setReady("web-1", true)
	b.expectBudget("web", 1)
	b.Expect(b.budgets(0).Status).To(Equal(metav1.ConditionTrue), "at once when it allows one")
	b.setReady("web-1", false)
	b.expectBudget("web", 0)
	b.Expect(b.budgets(time.Second).Status).To(Equal(metav1.ConditionTrue), "what was before the break does not count")
}

func TestOnlyBudgetsThatHoldADrainOfOwnNodesUpAreNamed(t *testing.T) {
	b := newEnv(t)
	own, other := b.node("own", true), b.node("other", false)
	b.pod(other, "elsewhere-0", "elsewhere", true, nil)
	b.budget("elsewhere", 1, 0)
	b.Expect(b.budgets(0).Status).To(Equal(metav1.ConditionTrue), "no drain would wait for it")
	for _, app := range []string{"a", "b", "c", "d", "e"} {
		b.pod(own, app+"-0", app, true, nil)
		b.budget(app, 1, 0)
	}
	found := b.budgets(0)
	b.Expect(strings.Count(found.Message, "PodDisruptionBudget")).To(Equal(mostNamed), found.Message)
	b.Expect(found.Message).To(And(ContainSubstring("/a allows"), ContainSubstring("/c allows"), HaveSuffix("; and there are more")))
}

func TestOnlyPodsThatADrainEvictsCount(t *testing.T) {
	owned := func(kind string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: ptr.To(true)}}
		}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"alone":           {func(*corev1.Pod) {}, true},
		"of a ReplicaSet": {owned("ReplicaSet"), true},
		"of a DaemonSet":  {owned("DaemonSet"), false},
		"static":          {func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }, false},
		"succeeded":       {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }, false},
		"failed":          {func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }, false},
	} {
		pod := &corev1.Pod{}
		test.change(pod)
		if got := isEvictable(pod); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestAtRestTwoRequestsAreMade(t *testing.T) {
	b := newEnv(t)
	b.web(1, 1)
	b.budgets(0)
	b.Expect(b.asked()).To(ConsistOf("GET /apis/policy/v1/poddisruptionbudgets", "GET /api/v1/namespaces/"+b.namespace+"/resourcequotas"))
}

// Checks are read every 30 s while there is nothing to follow, else every 10 s.
func TestWhatHasNothingToFollowIsReadLessOften(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*env)
		rests  bool
	}{
		"nothing":               {func(*env) {}, true},
		"a budget with room":    {func(b *env) { b.web(1, 1) }, true},
		"a budget that is used": {func(b *env) { b.web(2, 0) }, false},
		"a health check": {func(b *env) {
			b.cluster.Spec.HealthChecks = []v1alpha1.ClusterHealthCheck{{Type: "example.com/A", Deployment: v1alpha1.DeploymentReference{Namespace: b.namespace, Name: "web"}}}
		}, false},
		"a quota": {func(b *env) {
			quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "small"}}
			quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("9")}
			b.create(quota)
			b.Eventually(func() (*v1alpha1.PodQuota, error) { return b.tightestQuota(b.T.Context()) }).WithTimeout(agenttest.Wait).ShouldNot(BeNil())
		}, false},
		"no answer":  {func(b *env) { b.fail(errors.New("refused by the test")) }, false},
		"no Cluster": {func(b *env) { b.cluster = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			b.ownBudgets = true
			test.change(b)
			b.Read(t.Context())
			b.Clock.Step(restInterval - time.Second)
			b.Expect(b.isResting()).To(Equal(test.rests))
			if !test.rests {
				return
			}
			b.cluster.Generation++
			b.Expect(b.isResting()).To(BeFalse(), "what is asked for has changed")
			b.cluster.Generation--
			b.Clock.Step(time.Second)
			b.Expect(b.isResting()).To(BeFalse())
		})
	}
}

func TestADeploymentThatIsMissingIsFalse(t *testing.T) {
	b := newEnv(t)
	const kind = "example.com/FrontendAvailable"
	b.cluster.Spec.HealthChecks = []v1alpha1.ClusterHealthCheck{{Type: kind, Deployment: v1alpha1.DeploymentReference{Namespace: b.namespace, Name: "web"}}}
	found := b.condition(kind, 0)
	b.Expect(found).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonDeploymentNotFound),
		HaveField("Message", "Deployment "+b.namespace+"/web does not exist"), HaveField("ObservedGeneration", BeEquivalentTo(7))))

	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "web"}}
	deployment.Spec = appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeName: b.node("any", false), Containers: []corev1.Container{{Name: "c", Image: "c"}},
		}},
	}
	b.create(deployment)
	b.Eventually(func() string { return b.condition(kind, 0).Reason }).WithTimeout(agenttest.Wait).Should(Equal(v1alpha1.ReasonMinimumReplicasUnavailable))
	pods := &corev1.PodList{}
	b.Eventually(func() []corev1.Pod {
		b.Expect(b.Client.List(t.Context(), pods, client.InNamespace(b.namespace))).To(Succeed())
		return pods.Items
	}).WithTimeout(agenttest.Wait).Should(HaveLen(1))
	b.setReady(pods.Items[0].Name, true)
	b.Eventually(func() metav1.ConditionStatus { return b.condition(kind, 0).Status }).WithTimeout(agenttest.Wait).Should(Equal(metav1.ConditionTrue))
	b.asked()
	b.condition(kind, 0)
	b.Expect(b.asked()).To(HaveLen(3), "one request for each health check")
}

// Claim: Health of a Deployment scaled to 0 is Unknown. Broken: 0 replicas are all right.
// Edge case: A Deployment scaled to 0 was healthy.
func TestAvailability(t *testing.T) {
	for name, test := range map[string]struct {
		replicas         *int32
		generation, seen int64
		available        int32
		status, reason   string
	}{
		"all are available":        {ptr.To[int32](3), 2, 2, 3, "True", v1alpha1.ReasonMinimumReplicasAvailable},
		"more are, in an update":   {ptr.To[int32](3), 2, 2, 4, "True", v1alpha1.ReasonMinimumReplicasAvailable},
		"one is not":               {ptr.To[int32](3), 2, 2, 2, "False", v1alpha1.ReasonMinimumReplicasUnavailable},
		"none is asked for":        {ptr.To[int32](0), 2, 2, 0, "Unknown", v1alpha1.ReasonScaledToZero},
		"none, and it runs still":  {ptr.To[int32](0), 3, 2, 1, "Unknown", v1alpha1.ReasonScaledToZero},
		"one is the default":       {nil, 2, 2, 0, "False", v1alpha1.ReasonMinimumReplicasUnavailable},
		"of an earlier generation": {ptr.To[int32](3), 3, 2, 3, "Unknown", v1alpha1.ReasonPending},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: test.generation}, Spec: appsv1.DeploymentSpec{Replicas: test.replicas}}
		d.Status.ObservedGeneration, d.Status.AvailableReplicas = test.seen, test.available
		got := availabilityOf("Deployment a/b", d)
		if string(got.Status) != test.status || got.Reason != test.reason {
			t.Errorf("%s: %s %s, want %s %s", name, got.Status, got.Reason, test.status, test.reason)
		}
	}
}

func TestWhatCannotBeReadIsUnknownAfterAWhile(t *testing.T) {
	b := newEnv(t)
	b.Expect(b.Result().Known).To(BeFalse())
	b.fail(errors.New("refused by the test"))
	found := b.budgets(0)
	b.Expect(found).To(And(HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", v1alpha1.ReasonCheckFailed),
		HaveField("Message", ContainSubstring("refused by the test"))))
	b.fail(nil)
	b.Expect(b.budgets(0).Status).To(Equal(metav1.ConditionTrue))
	b.fail(errors.New("refused by the test"))
	b.Expect(b.budgets(keep-1).Status).To(Equal(metav1.ConditionTrue), "one failure is no news")
	b.Expect(b.budgets(1).Status).To(Equal(metav1.ConditionUnknown), "a stale answer is no answer")
}

func TestNothingIsReadWhileFrozenButOnceBeforeTheThaw(t *testing.T) {
	b := newEnv(t)
	b.frozen = errors.New("frozen")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- b.Start(ctx) }()
	b.Eventually(b.Clock.HasWaiters).WithTimeout(agenttest.Wait).Should(BeTrue())
	b.Expect(b.Result().Known).To(BeFalse())
	b.ReadBeforeThaw(ctx, 1)
	b.Expect(b.Result().Known).To(BeTrue())
	b.asked()
	b.ReadBeforeThaw(ctx, 1)
	b.Expect(b.asked()).To(BeEmpty(), "once for each freeze")
	b.ReadBeforeThaw(ctx, 2)
	b.Expect(b.asked()).NotTo(BeEmpty())
	b.mu.Lock()
	b.frozen = nil
	b.mu.Unlock()
	b.Clock.Step(restInterval)
	b.Eventually(b.asked).WithTimeout(agenttest.Wait).ShouldNot(BeEmpty(), "it continues after the thaw")
	cancel()
	b.Expect(<-stopped).To(Succeed())
}

func TestADifferentDeploymentIsAnotherCheck(t *testing.T) {
	b := newEnv(t)
	const kind = "example.com/Available"
	use := func(name string) {
		b.cluster.Spec.HealthChecks = []v1alpha1.ClusterHealthCheck{{Type: kind, Deployment: v1alpha1.DeploymentReference{Namespace: b.namespace, Name: name}}}
	}
	use("a")
	b.Expect(b.condition(kind, 0).Status).To(Equal(metav1.ConditionFalse))
	use("b")
	b.fail(errors.New("refused by the test"))
	b.Expect(b.condition(kind, 0).Status).To(Equal(metav1.ConditionUnknown), "what was read of another Deployment does not count")
	b.cluster.Spec.HealthChecks = nil
	b.Read(t.Context())
	b.Expect(b.Result().Conditions).To(HaveLen(1))
	b.Expect(b.last).To(HaveLen(2), "nothing is remembered of it")
}
