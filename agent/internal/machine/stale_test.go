package machine

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestReadinessIsNotLostToACacheThatIsBehind(t *testing.T) {
	b := newEnv(t)
	machine := b.create("behind")
	b.ExpectReconciled(machine)
	node := b.join(machine)
	b.ExpectReconciled(machine)
	b.Expect(machine.Spec.ProviderID).NotTo(BeNil())
	registered := b.node(machine.Name)
	b.cachedNodes = map[string]*corev1.Node{node.Name: nil}
	b.setReady(node, corev1.ConditionTrue)
	b.ExpectReconciled(machine)
	b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady), "what the cache lacks is asked of the API server")
	b.writes()

	b.cachedNodes[node.Name] = registered
	for range 2 {
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady), "the cache goes through what has been")
	}
	b.Expect(b.writes()).To(BeEmpty())

	b.cachedNodes = nil
	b.setReady(node, corev1.ConditionFalse)
	b.ExpectReconciled(machine)
	b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady), "the cache has come as far")
}

func TestAStaleCacheIsNotActedOn(t *testing.T) {
	b := newEnv(t)
	machine := b.create("stale-cache")
	before := machine.DeepCopy()
	b.ready(machine)
	calls := len(b.driver.Calls())
	b.writes()
	b.driver.Finish(machine.Name)
	next, err := b.controller.Reconcile(b.T.Context(), before)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(next.After).To(Equal(conflictRetry))
	b.Expect(b.driver.Calls()).To(HaveLen(calls))
	b.Expect(b.writes()).To(BeEmpty())
}

func TestAHubThatWentBackIsNotWaitedFor(t *testing.T) {
	b := newEnv(t)
	machine := b.create("went-back")
	lost := machine.DeepCopy()
	lost.ResourceVersion += "0"
	b.controller.orders.machines.Observed(lost)
	next, err := b.controller.Reconcile(b.T.Context(), machine)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(next.After).NotTo(Equal(conflictRetry))
	b.Expect(b.driver.Calls()).NotTo(BeEmpty(), "the hub has nothing newer that could come")
}

func TestANodeIsNotWrittenAgainBecauseTheCacheIsBehind(t *testing.T) {
	b := newEnv(t)
	machine := b.create("behind-itself", func(machine *v1alpha1.Machine) {
		machine.Spec.Taints = []corev1.Taint{{Key: "example.com/a", Effect: corev1.TaintEffectNoSchedule}}
	})
	b.ExpectReconciled(machine)
	registered := b.join(machine)
	b.ExpectReconciled(machine)
	b.Expect(b.node(machine.Name).Spec.Taints).To(ContainElement(HaveField("Key", "example.com/a")))
	b.cachedNodes = map[string]*corev1.Node{machine.Name: registered}
	_, err := b.tryReconcile(machine)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.conflicts).To(BeZero(), "the cache does not show the agent's own write yet, which is no reason to write again")
}
