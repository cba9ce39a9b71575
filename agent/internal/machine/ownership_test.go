package machine

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const realID = "aws:///eu-1a/i-0abc"

// realNode registers a Node that no driver made, and runs a pod on it.
func (b *env) realNode(name, providerID string) (*corev1.Node, *corev1.Pod) {
	b.T.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": "r1"}}}
	node.Spec.ProviderID = providerID
	b.ExpectApplied(node)
	b.T.Cleanup(func() { _ = b.Client.Delete(context.Background(), node) })
	b.setReady(node, corev1.ConditionTrue)
	pod := b.pod(name, "on-"+name)
	return node, pod
}

// expectUntouched wants Node and pod as they were.
func (b *env) expectUntouched(node *corev1.Node, pod *corev1.Pod) {
	b.T.Helper()
	live := b.node(node.Name)
	b.Expect(live.UID).To(Equal(node.UID))
	b.Expect(live.Labels).To(Equal(node.Labels))
	b.Expect(live.Annotations).To(Equal(node.Annotations))
	b.Expect(live.Spec.Unschedulable).To(BeFalse(), "cordoned")
	for _, taint := range live.Spec.Taints {
		b.Expect(taint.Key).NotTo(Equal("pwned"))
	}
	b.Expect(live.DeletionTimestamp).To(BeNil())
	b.Expect(b.leaving(pod)).To(BeFalse(), "its pod was evicted")
}

func TestOwnership(t *testing.T) {
	t.Run("should take no preset spec.providerID for a proof", func(t *testing.T) {
		b := newEnv(t)
		node, pod := b.realNode("preset-worker", realID)
		machine := b.create(node.Name, func(m *v1alpha1.Machine) {
			m.Spec.ProviderID = new(realID)
			m.Spec.NodeMetadata.Labels = map[string]string{"pwned": "yes"}
			m.Spec.Taints = []corev1.Taint{{Key: "pwned", Value: "yes", Effect: corev1.TaintEffectNoExecute}}
			m.Spec.Timeouts = &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{}}
		})
		b.ExpectReconciled(machine)
		b.expectUntouched(node, pod)
		b.Expect(machine.Status.ErrorMessage).To(ContainSubstring("spec.providerID: is %q, but the provider's ID of this Machine is %q", realID, b.driver.ProviderID(machine.Name)))
		b.Expect(b.driver.Calls()).To(BeEmpty())

		b.delete(machine)
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.expectUntouched(node, pod)
	})
	t.Run("should make no instance beside a node of its name, say why, and start when that node is gone", func(t *testing.T) {
		for name, cached := range map[string]bool{"beside-seen": true, "beside-unseen": false} {
			b := newEnv(t)
			node, pod := b.realNode(name, realID)
			if !cached {
				b.cachedNodes = map[string]*corev1.Node{name: nil} // The agent's cache selects by label.
			}
			machine := b.create(name)
			b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(conflictRecheck), "no event tells when that node goes")
			b.expectUntouched(node, pod)
			b.Expect(b.driver.Calls()).To(BeEmpty())
			b.Expect(machine).To(haveCondition(v1alpha1.MachineNodeReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNameConflict))
			b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNameConflict))
			said := And(ContainSubstring("a Node named %q exists and does not belong to this Machine", name), ContainSubstring("or delete the Node"))
			b.Expect(machine.Status.Conditions).To(ContainElement(And(HaveField("Type", v1alpha1.ReadyCondition), HaveField("Message", said))))
			b.Expect(b.Events()).To(ConsistOf(And(HavePrefix("Warning "+v1alpha1.ReasonNodeNameConflict), said)))
			b.writes()
			b.ExpectReconciled(machine)
			b.Expect(b.writes()).To(BeEmpty(), "it is said once")

			b.end(pod)
			b.ExpectDeleted(node)
			b.cachedNodes = nil
			b.ready(machine)
		}
	})
	// Edge case: A replaced Node's pods were evicted.
	t.Run("should evict nothing for an update from a node that took the place of its own", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("replaced-node")
		own := b.ready(machine)
		own = b.node(own.Name)
		own.Spec.Unschedulable = true // A user has cordoned it: the update starts with the drain.
		b.cachedNodes = map[string]*corev1.Node{own.Name: own}
		b.Expect(b.Client.Delete(b.T.Context(), own.DeepCopy())).To(Succeed())
		node, pod := b.realNode(own.Name, realID)

		machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(`{"size":2}`)}
		b.ExpectApplied(machine)
		b.ExpectReconciled(machine)
		b.expectUntouched(node, pod)
		b.Expect(b.driver.Calls()).To(Equal([]string{"Create " + machine.Name}), "updated over another's pods")
		b.cachedNodes = nil
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineNodeReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNameConflict))
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.expectUntouched(node, pod)
	})
	t.Run("should write its annotations on a node before it deletes it", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("claimed-late")
		b.ExpectReconciled(machine)
		node := b.join(machine)
		b.delete(machine)
		b.ExpectReconciled(machine) // The instance is gone.
		b.faults["delete *v1.Node"] = 1
		_, err := b.tryReconcile(machine)
		b.Expect(err).To(HaveOccurred())
		b.Expect(b.node(node.Name).Annotations).To(HaveKeyWithValue(v1alpha1.NodeMachineAnnotation, machine.Name))
		b.ExpectReconciled(machine)
		b.Expect(b.gone(node)).To(BeTrue())
	})
	// Edge case: A Node was deleted on an old version.
	t.Run("should not delete a node that another agent has claimed since it was read", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("claimed-away")
		node := b.ready(machine)
		b.delete(machine)
		b.ExpectReconciled(machine) // The instance is gone.
		b.deleting = func() {
			b.deleting = nil
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"hollowfleet.io/cluster-namespace":"other"}}}`))
			b.Expect(b.Client.Patch(b.T.Context(), node.DeepCopy(), patch)).To(Succeed())
		}
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
		b.Expect(b.gone(node)).To(BeFalse())
	})
	t.Run("should take back the node of a machine that was lost", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("taken-back")
		node := b.ready(machine)
		machine.Finalizers = nil
		b.ExpectApplied(machine)
		b.ExpectDeleted(machine)
		back := b.create(machine.Name)
		b.Expect(back.UID).NotTo(Equal(machine.UID))
		b.ExpectReconciled(back)
		b.ExpectReconciled(back)
		b.Expect(back.Status.NodeRef.UID).To(Equal(node.UID))
		b.Expect(back).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady))
	})
}
