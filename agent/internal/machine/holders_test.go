package machine

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

const keeper = "example.com/keep"

// hold puts the finalizer of another owner on an object until the test ends.
func (b *env) hold(object client.Object) {
	b.T.Helper()
	patch := func(finalizers string) error {
		return b.Client.Patch(b.T.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+finalizers+`}}`)))
	}
	own := ""
	for _, finalizer := range object.GetFinalizers() {
		own += `"` + finalizer + `",`
	}
	b.Expect(patch(`[` + own + `"` + keeper + `"]`)).To(Succeed())
}

func (b *env) release(object client.Object) {
	b.T.Helper()
	b.Expect(client.IgnoreNotFound(b.Client.Patch(b.T.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
}

// Claim: A deletion names others' finalizers; the Machine is not Ready. Broken: the finalizers of Machine, Node and pod not told, one by one; a Node that is being deleted is Ready; an error that keeps it not told; no reason.
// Edge case: A held deletion showed Running.
func TestADeletionNamesWhoHoldsIt(t *testing.T) {
	t.Run("should not be Running or Ready when only a finalizer of another is left on the machine", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("held-machine")
		node := b.ready(machine)
		b.hold(machine)
		b.delete(machine)
		defer b.release(machine)
		for range 3 {
			b.ExpectReconciled(machine)
			if b.read(machine); len(machine.Finalizers) == 1 { // It is said as soon as the agent is done, not with the next look.
				break
			}
		}
		b.Expect(b.gone(node)).To(BeTrue(), "pod and Node are gone")
		b.Expect(machine.Finalizers).To(Equal([]string{keeper}))
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineTerminating))
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonHeldByFinalizers))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineNodeReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeNotFound))
		b.Expect(b.message(machine, v1alpha1.ReadyCondition)).To(ContainSubstring(keeper))
		b.writes()
		b.ExpectReconciled(machine)
		b.Expect(b.writes()).To(BeEmpty(), "it is said once")
	})
	t.Run("should say so also when the agent's finalizer was taken away by hand, and not that pod and Node are gone", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("held-by-hand")
		b.ready(machine)
		machine.Finalizers = nil
		b.hold(machine)
		b.delete(machine)
		defer b.release(machine)
		b.ExpectReconciled(machine)
		b.read(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonHeldByFinalizers))
		b.Expect(machine).To(haveCondition(v1alpha1.MachinePodRunningCondition, metav1.ConditionTrue, v1alpha1.ReasonPodRunning))
		b.Expect(b.instances()).To(HaveLen(1), "what the agent may no longer touch stays")
	})
	t.Run("should name the finalizers of the Node", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("held-node")
		node := b.ready(machine)
		b.hold(node)
		defer b.release(node)
		b.delete(machine)
		for range 3 {
			b.ExpectReconciled(machine)
		}
		b.read(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonHeldByFinalizers))
		b.Expect(b.message(machine, v1alpha1.ReadyCondition)).To(And(ContainSubstring("Node held-node"), ContainSubstring(keeper)))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineNodeReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeDeleting))
		b.release(node)
		b.ExpectReconciled(machine)
		b.Expect(b.gone(machine)).To(BeTrue(), "it continues when the holder has let go")
	})
	t.Run("should name the finalizers of the pod, as the driver tells them", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("held-pod")
		b.ready(machine)
		b.Expect(b.driver.Set(machine.Name, driver.Deleting, "the pod is kept by the finalizers of others: "+keeper)).To(Succeed())
		b.delete(machine)
		b.stall(machine)
		b.Expect(b.message(machine, v1alpha1.ReadyCondition)).To(ContainSubstring(keeper))
	})
	t.Run("should not be Ready while its Node is being deleted by another", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("held-live")
		node := b.ready(machine)
		b.hold(node)
		defer b.release(node)
		b.ExpectDeleted(node)
		b.ExpectReconciled(machine)
		b.read(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeDeleting))
		b.Expect(b.message(machine, v1alpha1.ReadyCondition)).To(ContainSubstring(keeper))
	})
	t.Run("should say which error keeps it", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("held-error")
		b.ready(machine)
		b.delete(machine)
		for range 3 {
			b.driver.Fail("Delete", errors.New("no space left on device"))
		}
		b.stall(machine)
		b.Expect(b.message(machine, v1alpha1.ReadyCondition)).To(ContainSubstring("no space left on device"))
	})
}

func TestANameThatIsTakenIsSaidAtOnceAndIsNoError(t *testing.T) {
	b := newEnv(t)
	machine := b.create("taken")
	conflict := &driver.NameConflictError{Problem: "a secret named host/taken exists and was not created by an agent", Foreign: true}
	b.driver.Fail("Create", conflict)
	result, err := b.tryReconcile(machine)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(result.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", conflictRecheck)))
	b.read(machine)
	b.Expect(machine).To(haveCondition(v1alpha1.MachinePodRunningCondition, metav1.ConditionFalse, v1alpha1.ReasonNameConflict))
	b.Expect(b.message(machine, v1alpha1.ReadyCondition)).To(ContainSubstring("exists and was not created by an agent"))
	b.ExpectReconciled(machine)
	b.Expect(b.instances()).To(HaveLen(1), "it continues when the name is free")
}

// stall reconciles a Machine that makes no progress until that is written, also if one of the reconciliations meets a conflict.
func (b *env) stall(machine *v1alpha1.Machine) {
	b.T.Helper()
	for range 3 {
		_, _ = b.tryReconcile(machine)
		b.Clock.Step(DefaultStallAfter)
	}
	b.read(machine)
}

func (b *env) message(machine *v1alpha1.Machine, conditionType string) string {
	b.T.Helper()
	condition := meta.FindStatusCondition(machine.Status.Conditions, conditionType)
	b.Expect(condition).NotTo(BeNil(), conditionType)
	return condition.Message
}
