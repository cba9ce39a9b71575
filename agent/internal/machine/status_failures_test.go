package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler/reconcilertest"
)

const statusWrite = "patch/status *v1alpha1.Machine"

// busiest is how many attempts within a minute are no hot loop: one a second after a conflict, else fewer.
const busiest = 61

// failing lets the next status writes fail in one way.
func (b *env) failing(failure error) {
	b.failure, b.faults[statusWrite] = failure, reconcilertest.Times
}

func (b *env) drive(machine *v1alpha1.Machine, done func() bool) reconcilertest.History {
	b.T.Helper()
	return reconcilertest.Drive(b.T, b.controller.Reconciler(), machine, 0, b.Clock.Step, func() bool { b.read(machine); return done() })
}

func TestStatusWritesThatFailFiftyTimesInARow(t *testing.T) {
	for name, failure := range reconcilertest.Failures() {
		t.Run("should lose no news: "+name, func(t *testing.T) {
			b := newEnv(t)
			machine := b.create("failing-news-" + name)
			node := b.ready(machine)
			b.writes()
			b.failing(failure)
			b.setReady(node, corev1.ConditionFalse)
			version := machine.ResourceVersion
			history := b.drive(machine, func() bool { return machine.ResourceVersion != version })
			b.Expect(history.At).To(HaveLen(reconcilertest.Times + 1))
			b.Expect(history.Busiest()).To(BeNumerically("<=", busiest), "a hot loop: %v", history.At)
			b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady))
			b.Expect(machine.Status.ErrorReason).To(BeEmpty(), "the health timeout counts from when the hub knows")
			b.Expect(b.writes()).To(Equal([]string{"patch/status"}))
			b.Expect(b.driver.Calls()).To(HaveLen(1), "the instance was touched")
			b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(BeNumerically(">", 0), "its health timeout")
			b.Expect(b.writes()).To(BeEmpty())
		})
		t.Run("should make one instance and bring it to Ready: "+name, func(t *testing.T) {
			b := newEnv(t)
			machine := b.create("failing-new-" + name)
			b.failing(failure)
			b.ExpectReconciled(machine)
			node := b.join(machine)
			b.setReady(node, corev1.ConditionTrue)
			history := b.drive(machine, func() bool { return machine.Status.Phase == v1alpha1.MachineRunning })
			b.Expect(history.Busiest()).To(BeNumerically("<=", busiest), "a hot loop: %v", history.At)
			b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady))
			b.Expect(b.driver.Calls()).To(HaveLen(1))
			b.Expect(b.writes()).To(Equal([]string{"patch", "patch/status"}))
		})
		t.Run("should drain and remove all the same: "+name, func(t *testing.T) {
			b := newEnv(t)
			machine := b.create("failing-gone-" + name)
			node := b.ready(machine)
			pod := b.pod(machine.Name, "web")
			b.delete(machine)
			b.failing(failure)
			ended := time.Duration(0)
			history := reconcilertest.Drive(b.T, b.controller.Reconciler(), machine, 0, func(wait time.Duration) {
				b.Clock.Step(wait)
				if ended += wait; ended > 5*time.Minute {
					b.end(pod)
				}
			}, func() bool {
				b.Expect(b.leaving(pod) || len(b.instances()) == 1).To(BeTrue(), "removed under its pod")
				return b.gone(machine)
			})
			b.Expect(history.Busiest()).To(BeNumerically("<=", 2*busiest), "a drain looks once a second at first")
			b.Expect(b.gone(node)).To(BeTrue())
			b.Expect(b.instances()).To(BeEmpty())
			b.Expect(b.driver.Calls()).To(Equal([]string{"Create " + machine.Name, "Delete " + machine.Name, "Delete " + machine.Name}),
				"the instance, and what may be left of it")
		})
	}
}
