package machine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// pod puts a pod onto a Node, running.
func (b *env) pod(node, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	b.T.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name, Labels: map[string]string{"app": "web"}}}
	pod.Spec.NodeName = node
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "c"}}
	for _, change := range changes {
		change(pod)
	}
	b.Eventually(func() error { return b.Client.Create(b.T.Context(), pod) }).WithTimeout(agenttest.Wait).Should(Succeed(), "the namespace's service account must come")
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	b.ExpectStatusApplied(pod)
	b.T.Cleanup(func() { _ = b.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
	return pod
}

// budget protects the pods with the label app=web, and waits until the disruption controller has seen it.
func (b *env) budget(change func(*policyv1.PodDisruptionBudgetSpec)) *policyv1.PodDisruptionBudget {
	b.T.Helper()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "web"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	change(&budget.Spec)
	b.ExpectApplied(budget)
	b.Eventually(func(g Gomega) {
		g.Expect(b.Client.Get(b.T.Context(), client.ObjectKeyFromObject(budget), budget)).To(Succeed())
		g.Expect(budget.Status.ObservedGeneration).To(Equal(budget.Generation))
		g.Expect(budget.Status.CurrentHealthy).To(BeNumerically(">", 0))
	}).WithTimeout(agenttest.Wait).Should(Succeed(), "the disruption controller")
	return budget
}

// end does what a kubelet does when a pod has ended.
func (b *env) end(pod *corev1.Pod) {
	b.T.Helper()
	b.Expect(client.IgnoreNotFound(b.Client.Delete(b.T.Context(), pod, client.GracePeriodSeconds(0)))).To(Succeed())
}

// leaving reports whether a pod is being deleted or gone.
func (b *env) leaving(pod *corev1.Pod) bool {
	b.T.Helper()
	live := pod.DeepCopy()
	err := b.Client.Get(b.T.Context(), client.ObjectKeyFromObject(pod), live)
	b.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err != nil || live.DeletionTimestamp != nil
}

func (b *env) instances() []driver.Instance { return must(b.driver.List(b.T.Context())) }

func (b *env) node(name string) *corev1.Node {
	b.T.Helper()
	node := &corev1.Node{}
	b.Expect(b.Client.Get(b.T.Context(), client.ObjectKey{Name: name}, node)).To(Succeed())
	return node
}

// remove reconciles until the Machine is gone.
func (b *env) remove(machine *v1alpha1.Machine) {
	b.T.Helper()
	for range 5 {
		if b.gone(machine) {
			return
		}
		b.ExpectReconciled(machine)
	}
	b.Expect(b.gone(machine)).To(BeTrue(), "the machine stays: %+v", machine.Status.Conditions)
}

func TestDrain(t *testing.T) {
	t.Run("should empty the node before the instance goes, with one write to the hub", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-all")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.writes()
		b.delete(machine)
		result := b.ExpectReconciled(machine)
		b.Expect(b.leaving(pod)).To(BeTrue(), "the pod is evicted")
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeTrue(), "the node is cordoned")
		b.Expect(b.instances()).To(HaveLen(1), "the instance must stay until the pod has ended")
		b.Expect(result.RequeueAfter).To(Equal(time.Second), "nothing waits in the worker")
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1))
		b.end(pod)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(BeEmpty())
		b.remove(machine)
		b.Expect(b.writes()).To(Equal([]string{"patch"}), "only the finalizer's removal")
		b.Expect(b.Events()).To(BeEmpty(), "a drain that goes well is no news")
	})
	t.Run("should say what it waits for when it takes a while", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-slow")
		b.ready(machine)
		b.pod(machine.Name, "web")
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Clock.Step(DefaultStallAfter)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDraining))
		b.Expect(b.Events()).To(ConsistOf(And(ContainSubstring("Normal Draining"), ContainSubstring(b.namespace+"/web"))))
	})
	t.Run("should leave the pods of daemon sets and mirrors of static pods", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-daemon")
		b.ready(machine)
		set := b.daemonSet()
		daemon := b.pod(machine.Name, "daemon", func(p *corev1.Pod) {
			p.Labels = set.Spec.Selector.MatchLabels
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, daemonSetKind)}
		})
		mirror := b.pod(machine.Name, "mirror", func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		})
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(daemon)).To(BeFalse())
		b.Expect(b.leaving(mirror)).To(BeFalse())
		b.Expect(b.instances()).To(BeEmpty(), "nothing else is to be waited for")
	})
	// Edge case: The holding budget is not named.
	t.Run("should keep a disruption budget, and continue when it allows", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-budget")
		b.ready(machine)
		one, two := b.pod(machine.Name, "web-1"), b.pod(machine.Name, "web-2")
		budget := b.budget(func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = ptr.To(intstr.FromInt32(1)) })
		b.Eventually(func() int32 {
			b.ExpectExists(budget)
			return budget.Status.DisruptionsAllowed
		}).WithTimeout(agenttest.Wait).Should(BeEquivalentTo(1))
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Expect([]bool{b.leaving(one), b.leaving(two)}).To(ConsistOf(true, false), "one of two may go")
		b.Clock.Step(DefaultStallAfter)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDraining))
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring("The disruption budget web ")), "the event names the budget")
		b.ExpectDeleted(budget)
		b.ExpectReconciled(machine)
		b.Expect([]bool{b.leaving(one), b.leaving(two)}).To(ConsistOf(true, true))
	})
	t.Run("should evict what can be evicted, however many pods before it a budget holds", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-many")
		b.ready(machine)
		var held []*corev1.Pod
		for i := range 51 {
			held = append(held, b.pod(machine.Name, fmt.Sprintf("a-%02d", i)))
		}
		b.budget(func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.FromInt32(0)) })
		free := b.pod(machine.Name, "z", func(p *corev1.Pod) { p.Labels = nil })
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(free)).To(BeTrue(), "it comes after 51 that a budget holds")
		b.Expect(b.leaving(held[50])).To(BeFalse(), "the budget is kept")
	})
	// Edge case: An impossible budget is retried silently.
	t.Run("should name a budget that allows no disruption at all, and end at the deadline", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-never")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.budget(func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.FromInt32(0)) })
		b.delete(machine)
		b.writes()
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonMisconfiguredBudget))
		warning := And(ContainSubstring("Warning MisconfiguredBudget"), ContainSubstring("PodDisruptionBudget "+b.namespace+"/web allows no disruption at all (maxUnavailable: 0)"))
		b.Expect(b.Events()).To(ConsistOf(warning))
		b.Expect(b.writes()).To(Equal([]string{"patch/status"}), "it is written at once")
		b.ExpectReconciled(machine)
		b.Expect(b.writes()).To(BeEmpty())
		b.Expect(b.Events()).To(BeEmpty(), "the event comes once")

		b.Clock.Step(2*time.Hour - time.Minute)
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(BeNumerically("<=", 15*time.Second))
		b.Expect(b.instances()).To(HaveLen(1))
		b.Clock.Step(2 * time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut))
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring("Warning DrainTimedOut")))
		b.Expect(b.instances()).To(BeEmpty())
		b.Expect(b.leaving(pod)).To(BeFalse(), "the budget was kept to the end")
		b.remove(machine)
	})
	// Edge case: CAPI #13508: an unreachable node's drain never ends. Also: "CAPI #13508: should end by default although a budget allows nothing on a node whose kubelet is silent".
	t.Run("CAPI #13508: should end at the deadline on a node whose kubelet is silent", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-silent", func(m *v1alpha1.Machine) {
			m.Spec.Timeouts = &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{Duration: 4 * time.Minute}}
		})
		node := b.ready(machine)
		b.setReady(node, corev1.ConditionUnknown)
		b.pod(machine.Name, "web")
		b.delete(machine)
		b.Clock.SetTime(machine.DeletionTimestamp.Time)
		b.ExpectReconciled(machine)
		b.Clock.Step(3 * time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1))
		b.Clock.Step(time.Minute + time.Second)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(BeEmpty())
	})
	t.Run("CAPI #13508: should end by default although a budget allows nothing on a node whose kubelet is silent", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-silent-budget")
		node := b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.budget(func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = ptr.To(intstr.FromInt32(0)) })
		b.setReady(node, corev1.ConditionUnknown)
		b.delete(machine)
		b.Clock.SetTime(machine.DeletionTimestamp.Time)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonMisconfiguredBudget))
		b.Clock.Step(2*time.Hour - time.Second)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1), "no timeout is set, so it is two hours")
		b.Clock.Step(time.Second)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut))
		b.Expect(b.instances()).To(BeEmpty())
		b.Expect(b.leaving(pod)).To(BeFalse(), "the budget was kept to the end")
		b.remove(machine)
	})
}

func TestDrainDeadline(t *testing.T) {
	// Edge case: A clock ahead ended a drain.
	t.Run("should give a drain its whole time when the agent's clock is ahead of the hub's", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-ahead")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.delete(machine)
		b.Clock.SetTime(machine.DeletionTimestamp.Add(3 * time.Hour))
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(pod)).To(BeTrue())
		b.Expect(b.instances()).To(HaveLen(1), "the agent has just started, whatever its clock says")
		b.Clock.Step(time.Hour)
		b.ExpectReconciled(machine)
		b.start()
		b.Clock.Step(time.Hour - time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1))
		b.Clock.Step(time.Minute + time.Second)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(BeEmpty(), "the time before the restart counts")
		b.remove(machine)
	})
	// Edge case: One failed list ended a drain.
	t.Run("should not give up when the pods cannot be listed", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-unlisted")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.delete(machine)
		b.Clock.SetTime(machine.DeletionTimestamp.Time)
		b.ExpectReconciled(machine)
		b.Clock.Step(3 * time.Hour)
		b.listing = func() error { return errors.New("a fault of the test: listing pods") }
		_, err := b.tryReconcile(machine)
		b.Expect(err).To(MatchError(ContainSubstring("listing pods")))
		b.Expect(b.instances()).To(HaveLen(1), "nothing is known of its pods")
		b.listing = nil
		b.end(pod)
		b.remove(machine)
	})
	// Edge case: Freezes do not extend a drain's deadline.
	t.Run("should not count frozen time", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("drain-frozen")
		b.ready(machine)
		b.pod(machine.Name, "web")
		b.delete(machine)
		// The API server's clock wrote the deletion; the fake one must not be behind it.
		b.Clock.SetTime(machine.DeletionTimestamp.Time)
		b.ExpectReconciled(machine)
		b.Clock.Step(5 * time.Hour)
		b.frozenFor = 4 * time.Hour
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1), "four of five hours were frozen")
		b.Clock.Step(time.Hour + time.Second)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(BeEmpty())
	})
}

var daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// daemonSet makes a DaemonSet whose controller leaves a pod alone that a test put there for it.
func (b *env) daemonSet() *appsv1.DaemonSet {
	b.T.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "daemon"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "daemon"}}
	set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	set.Spec.Template.Spec.NodeSelector = map[string]string{v1alpha1.HollowNodeLabel: "true"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "c"}}
	b.ExpectApplied(set)
	return set
}
