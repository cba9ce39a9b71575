package machine

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestFrozen(t *testing.T) {
	t.Run("should create nothing, and keep reporting", func(t *testing.T) {
		b := newEnv(t)
		b.frozen.frozen = true
		machine := b.create("frozen-new", func(m *v1alpha1.Machine) { m.Finalizers = nil })
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(DefaultStallAfter), "it waits for the thaw instead of trying again")
		b.Clock.Step(DefaultStallAfter)
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(BeZero())
		b.Expect(b.driver.Calls()).To(BeEmpty())
		b.Expect(machine.Finalizers).To(BeEmpty())
		b.Expect(b.writes()).To(Equal([]string{"patch/status"}))
		b.frozen.frozen = false
		b.ready(machine)
	})
	t.Run("should report a node that is not ready any more", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("frozen-report")
		node := b.ready(machine)
		b.frozen.frozen = true
		b.setReady(node, corev1.ConditionFalse)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady))
	})
	t.Run("should repair, replace and bring in line nothing", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("frozen-repair")
		node := b.ready(machine)
		b.frozen.frozen = true
		machine.Spec.NodeMetadata.Labels = map[string]string{"tier": "gold"}
		b.ExpectApplied(machine)
		b.Expect(b.driver.Set(machine.Name, driver.Failed, "ended")).To(Succeed())
		b.ExpectReconciled(machine)
		b.driver.Finish(machine.Name)
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(HaveLen(1))
		b.ExpectExists(node)
		b.Expect(node.Labels).NotTo(HaveKey("tier"))
	})
	// Edge case: A deleted Machine in a frozen cluster showed Ready. Also: "to be deleted while frozen".
	t.Run("MCM #718: should delete nothing, and after the thaw all of it", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("frozen-delete")
		node := b.ready(machine)
		b.delete(machine)
		b.frozen.frozen = true
		b.ExpectReconciled(machine)
		b.Expect(b.gone(node)).To(BeFalse())
		b.Expect(b.driver.List(b.T.Context())).To(HaveLen(1))
		b.Expect(machine.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineTerminating), "said at once, although nothing is removed")
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingThaw))
		b.frozen.frozen = false
		b.ExpectReconciled(machine)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue())
	})
	t.Run("should delete nothing when the freeze comes to light only at the deletion", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("frozen-late")
		node := b.ready(machine)
		b.delete(machine)
		b.Clock.Step(refreshAge) // The creation has asked, too.
		b.refresh = func() error { b.frozen.frozen = true; return nil }
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingThaw))
		b.Expect(b.gone(node)).To(BeFalse())
		b.Expect(b.driver.List(b.T.Context())).To(HaveLen(1))
	})
	t.Run("should delete nothing while the hub does not say whether the cluster is frozen", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("frozen-unsaid")
		node := b.ready(machine)
		b.delete(machine)
		b.Clock.Step(refreshAge) // The creation has asked, too.
		b.refresh = func() error { return trouble("no answer") }
		_, err := b.tryReconcile(machine)
		b.Expect(err).To(MatchError(ContainSubstring("no answer")))
		b.Expect(b.gone(node)).To(BeFalse())
		b.Expect(b.driver.List(b.T.Context())).To(HaveLen(1))
	})
	t.Run("should stop a deletion that it freezes in", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("frozen-middle")
		node := b.ready(machine)
		b.delete(machine)
		b.ExpectReconciled(machine) // the instance goes
		b.frozen.frozen = true
		b.ExpectReconciled(machine)
		b.Expect(b.gone(node)).To(BeFalse())
		b.frozen.frozen = false
		b.ExpectReconciled(machine)
		b.Expect(b.gone(node)).To(BeTrue())
	})
}

func TestAnUpdateInPlaceInAFreeze(t *testing.T) {
	t.Run("should evict nothing when the freeze comes to light only in the drain", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-frozen-late")
		b.ready(machine)
		first := b.pod(machine.Name, "first")
		b.change(machine, `{"size":2}`)
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(first)).To(BeTrue())
		b.end(first)

		second := b.pod(machine.Name, "second")
		b.Clock.Step(refreshAge) // The first round has asked, too.
		b.refresh = func() error { b.frozen.frozen = true; return nil }
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(second)).To(BeFalse())
		b.Expect(b.driver.Calls()).To(Equal([]string{"Create inplace-frozen-late"}))
	})
	t.Run("should wait for the thaw", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-frozen")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"size":2}`)
		b.frozen.frozen = true
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingUpdate))
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.frozen.frozen = false
		b.end(pod)
		b.ExpectReconciled(machine)
		b.updated(machine)
	})
}
