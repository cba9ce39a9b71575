package machine

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// drainTimeout sets the drain timeout of a Machine or MachineClass past all validation, as an older definition would have
// accepted it.
func (b *env) drainTimeout(object client.Object, definition, timeout string) {
	b.T.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"timeouts":{"drain":"`+timeout+`"}}}`))
	b.Expect(b.Server.Loosely(b.T.Context(), func(ctx context.Context) error {
		return b.Client.Patch(ctx, object.DeepCopyObject().(client.Object), patch)
	}, definition)).To(Succeed())
}

const machinesDefinition, classesDefinition = "machines.hollowfleet.io", "machineclasses.hollowfleet.io"

// Edge case: An undecodable Machine's pod and Node stay.
func TestAMachineThatCannotBeDecodedKeepsWhatItHas(t *testing.T) {
	b := newEnv(t)
	bad, good := b.create("undecodable-m"), b.create("decodable-m")
	node := b.ready(bad)
	b.ready(good)
	calls := len(b.driver.Calls())
	b.drainTimeout(bad, machinesDefinition, "1 week")
	b.setReady(node, corev1.ConditionFalse)
	for range 2 {
		result, err := b.tryReconcile(bad)
		b.Expect(err).NotTo(HaveOccurred(), "a retry repairs nothing")
		b.Expect(result.RequeueAfter).To(BeZero())
		b.Expect(b.driver.Calls()).To(HaveLen(calls))
		b.Expect(b.driver.List(t.Context())).To(HaveLen(2), "its instance stays, also when it is deleted")
		b.Expect(b.gone(node)).To(BeFalse())
		b.Expect(agenttest.Environment(t).Remove(t.Context(), bad)).To(Succeed())
	}
	finder := b.controller.OrphanFinder()
	for range 2 {
		_, err := finder.Find(t.Context())
		b.Expect(err).NotTo(HaveOccurred())
	}
	orphans, known := finder.Orphans()
	b.Expect(known).To(BeTrue())
	b.Expect(orphans).To(BeNil(), "its instance and its Node are no orphans")

	b.ExpectDeleted(good)
	b.Eventually(func() bool { b.ExpectReconciled(good); return b.gone(good) }).WithTimeout(agenttest.Wait).Should(BeTrue(), "the other one goes")

	b.drainTimeout(bad, machinesDefinition, "2h")
	b.Eventually(func() bool { b.ExpectReconciled(bad); return b.gone(bad) }).WithTimeout(agenttest.Wait).Should(BeTrue(), "repaired, it is a Machine like all others")
	b.Expect(b.driver.List(t.Context())).To(BeEmpty())
	b.Expect(b.gone(node)).To(BeTrue())
}

// Edge case: A freeze's end does not wait for an undecodable Machine.
func TestTheRollCallDoesNotWaitForAMachineThatCannotBeDecoded(t *testing.T) {
	b := newEnv(t)
	bad, good := b.create("undecodable-roll"), b.create("decodable-roll")
	b.drainTimeout(bad, machinesDefinition, "1 week")
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	waker := NewWaker(b.namespace, b.Client, nil, nil)
	b.Expect(waker.Start(t.Context(), queue)).To(Succeed())
	calls := NewPreThawSync(waker, b.Clock)
	left, err := calls.Run(t.Context(), 1)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(left).To(Equal(2), "both are called")
	for queue.Len() > 0 {
		request, _ := queue.Get()
		_, err := calls.Wrap(b.controller.Reconciler()).Reconcile(t.Context(), request)
		b.Expect(err).NotTo(HaveOccurred())
		queue.Done(request)
	}
	left, err = calls.Run(t.Context(), 1)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(left).To(BeZero(), "one look is enough, and no try is repeated")
	b.read(good)
	b.Expect(good.Status.Phase).NotTo(BeEmpty(), "the hub is told of the other")
}

// Edge case: An undecodable Machine held its set's updates.
func TestAMachineThatCannotBeDecodedHoldsUpNoSibling(t *testing.T) {
	b := newEnv(t)
	class := b.class("turns")
	set := b.machineSet()
	var machines []*v1alpha1.Machine
	for i := range 2 {
		machine := b.create(fmt.Sprintf("turn-%d", i), b.uses(class), func(m *v1alpha1.Machine) { m.OwnerReferences = []metav1.OwnerReference{set} })
		b.ready(machine)
		machines = append(machines, machine)
	}
	class.Spec.ProviderConfig.Raw = []byte(`{"size":2}`)
	b.ExpectApplied(class)
	b.ExpectReconciled(machines[0])
	b.ExpectReconciled(machines[1])
	b.Expect(b.driver.Calls()).NotTo(ContainElement("Update turn-1"), "the first has the turn")
	b.drainTimeout(machines[0], machinesDefinition, "1 week")
	b.updated(machines[1])
	b.Expect(b.driver.Calls()).To(ContainElement("Update turn-1"))
}

// class makes a MachineClass of provider fake; uses makes a Machine use it.
func (b *env) class(name string) *v1alpha1.MachineClass {
	b.T.Helper()
	class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	class.Spec.Provider, class.Spec.ProviderConfig = "fake", &runtime.RawExtension{Raw: []byte(`{"size":1}`)}
	b.ExpectApplied(class)
	return class
}

func (b *env) uses(class *v1alpha1.MachineClass) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) {
		m.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: class.Name}}
	}
}

// Edge case: An undecodable class made the agent panic. Also: TestADeletionWaitsForAClassThatCannotBeDecoded.
func TestMachinesOfAClassThatCannotBeDecodedWait(t *testing.T) {
	b := newEnv(t)
	class := b.class("broken")
	running := b.create("class-running", b.uses(class))
	node := b.ready(running)
	calls := len(b.driver.Calls())
	b.drainTimeout(class, classesDefinition, "1 week")
	waiting := b.create("class-waiting", b.uses(class))
	for _, machine := range []*v1alpha1.Machine{running, waiting} {
		_, err := b.tryReconcile(machine)
		b.Expect(err).NotTo(HaveOccurred(), "a retry repairs nothing")
	}
	b.Clock.Step(time.Minute) // What holds a status back does so no longer.
	for _, machine := range []*v1alpha1.Machine{running, waiting} {
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineConfigurationValidCondition, metav1.ConditionUnknown, v1alpha1.ReasonUndecodable))
		b.Expect(machine.Status.Conditions).To(ContainElement(HaveField("Message", And(
			ContainSubstring("MachineClass "+b.namespace+"/broken"), ContainSubstring("repair it")))))
		b.Expect(machine.Status.ErrorReason).To(BeEmpty(), "a set must not replace it")
	}
	b.Expect(running).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady), "it runs on")
	b.Expect(b.driver.Calls()).To(HaveLen(calls), "nothing is made, changed or removed")

	// Its timeouts are those of the class, and not known.
	b.setReady(node, corev1.ConditionFalse)
	b.ExpectReconciled(running)
	b.Clock.Step(10 * time.Hour)
	for _, machine := range []*v1alpha1.Machine{running, waiting} {
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.ErrorReason).To(BeEmpty())
	}
	b.setReady(node, corev1.ConditionTrue)

	b.drainTimeout(class, classesDefinition, "2h")
	b.ExpectReconciled(waiting)
	b.Expect(b.driver.Calls()).To(ContainElement("Create class-waiting"))
	b.Expect(waiting.Status.ErrorReason).To(BeEmpty(), "the time before counts for nothing")
	b.ExpectReconciled(running)
	b.Expect(running).To(haveCondition(v1alpha1.MachineConfigurationValidCondition, metav1.ConditionTrue, v1alpha1.ReasonValid))
}

func TestADeletionWaitsForAClassThatCannotBeDecoded(t *testing.T) {
	b := newEnv(t)
	class := b.class("broken-deletion")
	machine := b.create("class-deleted", b.uses(class))
	node := b.ready(machine)
	b.drainTimeout(class, classesDefinition, "1 week")
	b.ExpectDeleted(machine)
	_, err := b.tryReconcile(machine)
	b.Expect(err).To(MatchError(ContainSubstring("MachineClass "+b.namespace+"/broken-deletion")), "how it is to be drained is not known")
	b.Expect(b.driver.List(t.Context())).To(HaveLen(1))
	b.Expect(b.gone(node)).To(BeFalse())
	b.drainTimeout(class, classesDefinition, "2h")
	b.Eventually(func() bool { b.ExpectReconciled(machine); return b.gone(machine) }).WithTimeout(agenttest.Wait).Should(BeTrue())
}
