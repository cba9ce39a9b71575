package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestAfterAThaw(t *testing.T) {
	t.Run("should let a deletion wait, say so once, and not count the wait as drain", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pace-delete", func(m *v1alpha1.Machine) {
			m.Spec.Timeouts = &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{Duration: time.Minute}}
		})
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.writes()
		b.delete(machine)
		b.pace.wait = 40 * time.Second
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(BeNumerically("<=", DefaultStallAfter), "the status is written when nothing moves")
		b.Clock.Step(20 * time.Second)
		b.pace.wait = 20 * time.Second
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(20*time.Second), "back just when its turn comes")
		b.Clock.Step(time.Second)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonThawLimited))
		b.Expect(b.writes()).To(Equal([]string{"patch/status"}))
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring("Normal ThawLimited")))
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeFalse(), "cordoned before its turn")
		b.Expect(b.instances()).To(HaveLen(1))

		// The drain's minute would be over long ago.
		b.Clock.Step(10 * time.Minute)
		b.pace.wait, b.pace.waited = 0, 10*time.Minute
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(pod)).To(BeTrue())
		b.Expect(b.instances()).To(HaveLen(1), "given up for the time that it had to wait")
		b.end(pod)
		b.remove(machine)
		b.Expect(b.pace.forgotten).To(ContainElement(machine.UID))
	})
	t.Run("should limit a forced deletion too", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pace-force", func(m *v1alpha1.Machine) { m.Labels = map[string]string{v1alpha1.ForceDeletionLabel: "true"} })
		b.ready(machine)
		b.delete(machine)
		b.pace.wait = time.Minute
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1))
		b.pace.wait = 0
		b.remove(machine)
	})
	t.Run("should not hold up what is gone or going already, nor ask for a machine that a hook holds", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pace-ending")
		b.ready(machine)
		b.delete(machine)
		b.Expect(b.driver.Set(machine.Name, driver.Deleting, "")).To(Succeed())
		b.pace.wait = time.Minute
		b.ExpectReconciled(machine)
		b.driver.Finish(machine.Name)
		b.remove(machine)

		held := b.create("pace-hook", func(m *v1alpha1.Machine) {
			m.Annotations = map[string]string{v1alpha1.PreDrainHookPrefix + "backup": ""}
		})
		b.ready(held)
		b.delete(held)
		b.pace.asked = 0
		b.ExpectReconciled(held)
		b.Expect(b.pace.asked).To(BeZero())
	})
	t.Run("should let an update wait that has not started", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pace-update")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"size":2}`)
		b.pace.wait = time.Minute
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(time.Minute))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingUpdate))
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineRunning))
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeFalse())
		b.pace.wait = 0
		b.ExpectReconciled(machine)
		b.end(pod)
		b.updated(machine)
	})
	t.Run("should let an update wait that a freeze has interrupted", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pace-started")
		b.ready(machine)
		first, second := b.pod(machine.Name, "first"), b.pod(machine.Name, "second")
		b.change(machine, `{"size":2}`)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonDraining))
		b.end(first)
		b.end(second)
		b.pace.wait = time.Minute
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(Equal([]string{"Create pace-started"}), "updated before its turn")
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonThawLimited))
		b.pace.wait = 0
		b.ExpectReconciled(machine)
		b.updated(machine)
	})
	t.Run("should not take an instance away before its turn that has ended", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pace-repair")
		b.ready(machine)
		b.Expect(b.driver.Set(machine.Name, driver.Failed, "evicted")).To(Succeed())
		b.pace.wait = time.Minute
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(time.Minute))
		b.Expect(b.driver.Calls()).To(Equal([]string{"Create pace-repair"}))
		b.pace.wait = 0
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(Equal([]string{"Create pace-repair", "Delete pace-repair"}))
	})
	t.Run("should tell of a machine that is made, and not of one that is made again", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pace-made")
		b.ready(machine)
		b.Expect(b.pace.made).To(Equal([]types.UID{machine.UID}))
		b.driver.Finish(machine.Name)
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(Equal([]string{"Create pace-made", "Create pace-made"}))
		b.Expect(b.pace.made).To(HaveLen(1), "its second instance is already known to the pace")
	})
	t.Run("should ask for nothing that takes nothing away", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pace-rest")
		node := b.ready(machine)
		b.setReady(node, corev1.ConditionFalse)
		b.ExpectReconciled(machine)
		b.Expect(b.pace.asked).To(BeZero())
	})
}
