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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/driver"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// change gives a Machine another configuration, as the hub does for an update in place.
func (b *env) change(machine *v1alpha1.Machine, raw string) {
	b.T.Helper()
	b.read(machine)
	machine.Spec.ProviderConfig.Value = &runtime.RawExtension{Raw: []byte(raw)}
	b.ExpectApplied(machine)
}

// updated reconciles until an update in place is through.
func (b *env) updated(machine *v1alpha1.Machine) {
	b.T.Helper()
	for range 5 {
		b.ExpectReconciled(machine)
	}
	b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionTrue, v1alpha1.ReasonUpToDate))
	b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineRunning))
	node := b.node(machine.Name)
	b.Expect(node.Spec.Unschedulable).To(BeFalse(), "the node stays cordoned")
	b.Expect(node.Annotations).NotTo(HaveKey(v1alpha1.NodeCordonedAnnotation))
}

func TestUpdateInPlace(t *testing.T) {
	t.Run("should cordon, drain, update, wait for the node, and give it back", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace")
		node := b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"size":2}`)
		b.writes()
		repeated := b.repeated

		b.ExpectReconciled(machine)
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineUpdating))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonDraining))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDraining))
		b.Expect(b.node(machine.Name).Annotations).To(HaveKeyWithValue(v1alpha1.NodeCordonedAnnotation, "update"))
		b.Expect(b.leaving(pod)).To(BeTrue())
		b.Expect(b.driver.Calls()).To(Equal([]string{"Create inplace"}), "updated under its pods")

		b.end(pod)
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(Equal([]string{"Create inplace", "Update inplace"}))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonUpdating))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionTrue, v1alpha1.ReasonDrained))

		b.setReady(node, corev1.ConditionFalse)
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineUpdating))
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeTrue(), "given back before it is Ready")
		b.setReady(node, corev1.ConditionTrue)
		b.updated(machine)
		b.Expect(machine.Status.NodeRef.UID).To(Equal(node.UID), "the node is the same")
		b.Expect(machine).NotTo(HaveField("Status.Conditions", ContainElement(HaveField("Type", v1alpha1.MachineDrainedCondition))))
		writes := b.writes()
		// A conflict with the node controller, which writes to Nodes as well, breaks a reconciliation off after a part of it.
		b.Expect(len(writes)).To(BeNumerically("<=", 4+b.repeated-repeated), "draining, updating, not ready, through: %v; %+v", writes, machine.Status.Conditions)
		b.Expect(b.Events()).To(HaveExactElements(ContainSubstring("Normal Draining"), ContainSubstring("Normal Updating"), ContainSubstring("Normal Updated")))
	})
	t.Run("should know its own cordon, and that it took it back, while the cache does not", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-behind")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"size":2}`)
		// The node controller may write to the Node meanwhile; then the cache has to be one version further.
		b.Eventually(func(g Gomega) {
			before := b.node(machine.Name)
			g.Expect(before.Spec.Unschedulable).To(BeFalse(), "the cache does not know of the cordon")
			b.cachedNodes = map[string]*corev1.Node{machine.Name: before}
			_, err := b.tryReconcile(machine)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeTrue())
		}).WithTimeout(agenttest.Wait).Should(Succeed())
		b.end(pod)
		_, err := b.tryReconcile(machine)
		b.Expect(err).NotTo(HaveOccurred(), "cordoned once more, which conflicts")
		b.Expect(b.driver.Calls()).To(ContainElement("Update inplace-behind"))

		b.cachedNodes[machine.Name] = b.node(machine.Name)
		b.updated(machine)
		own := b.node(machine.Name)
		own.Spec.Unschedulable = true
		b.ExpectApplied(own)
		b.ExpectReconciled(machine)
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeTrue(), "a user's cordon was taken back")
	})
	t.Run("should drain nothing when the driver cannot update in place", func(t *testing.T) {
		b := newEnv(t)
		b.driver.RefuseInPlace()
		machine := b.create("inplace-never")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"size":2}`)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonInPlaceUnsupported))
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady))
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineRunning))
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeFalse())
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring("Warning InPlaceUnsupported")))
	})
	t.Run("should give the node back when the driver says only at the update that it cannot", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-late")
		b.ready(machine)
		b.driver.Fail("Update", &driver.InPlaceUnsupportedError{Problem: "not today"})
		b.change(machine, `{"size":2}`)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonInPlaceUnsupported))
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeFalse())
	})
	t.Run("should drain nothing for a configuration that is invalid", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-invalid")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"invalid":1}`)
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.ErrorReason).To(Equal(v1alpha1.ErrorInvalidConfiguration))
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeFalse())
	})
	t.Run("should wait for the version that it wants", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-version")
		node := b.ready(machine)
		b.read(machine)
		machine.Spec.Versions.Kubelet, machine.Spec.ProviderConfig.Value = "1.36.2", &runtime.RawExtension{Raw: []byte(`{"size":2}`)}
		b.ExpectApplied(machine)
		for range 3 {
			b.ExpectReconciled(machine)
		}
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonUpdating))
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeTrue())
		b.Eventually(func() error {
			b.ExpectExists(node)
			node.Status.NodeInfo.KubeletVersion = "v1.36.2"
			return b.Client.Status().Update(b.T.Context(), node)
		}).Should(Succeed())
		b.updated(machine)
	})
	t.Run("should leave a node cordoned that a person cordoned", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-cordon")
		node := b.ready(machine)
		b.Expect(b.Client.Patch(b.T.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))).To(Succeed())
		b.change(machine, `{"size":2}`)
		for range 4 {
			b.ExpectReconciled(machine)
		}
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionTrue, v1alpha1.ReasonUpToDate))
		b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeTrue())
	})
	t.Run("should end the drain at its deadline, counted from its beginning", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-deadline")
		b.ready(machine)
		b.Clock.Step(5 * time.Hour)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"size":2}`)
		b.ExpectReconciled(machine)
		b.Clock.Step(2*time.Hour - 2*time.Second)
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(HaveLen(1))
		b.Clock.Step(3 * time.Second)
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(HaveLen(2))
		b.Expect(b.Events()).To(ContainElement(ContainSubstring("Warning DrainTimedOut")))
		b.end(pod)
		b.updated(machine)
	})
	t.Run("should drain nothing for an order that the hub has taken back", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-back")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"size":2}`)
		cached := machine.DeepCopy()
		b.change(machine, `{"size":1}`)
		_, err := b.controller.Reconcile(b.T.Context(), cached)
		b.Expect(err).NotTo(HaveOccurred())
		b.Expect(b.leaving(pod)).To(BeFalse())
		b.updated(machine)
	})
	t.Run("should try again when an update fails, and say so", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("inplace-fails")
		b.ready(machine)
		b.driver.Fail("Update", trouble("no spare parts"))
		b.change(machine, `{"size":2}`)
		b.Eventually(func() error {
			_, err := b.tryReconcile(machine)
			return err
		}).WithTimeout(agenttest.Wait).Should(MatchError(ContainSubstring("no spare parts")), "after a conflict with the control plane it is tried again")
		b.read(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonUpdateFailed))
		b.updated(machine)
	})
}

func TestDeletionDuringAnUpdateInPlace(t *testing.T) {
	stages := map[string]struct {
		prepare func(b *env)
		steps   int
	}{
		"while it drains":                  {func(*env) {}, 1},
		"while the instance is on the way": {func(b *env) { b.driver.Fail("Update", trouble("later")) }, 1},
		"while the node comes back":        {func(*env) {}, 3},
	}
	n := 0
	for name, stage := range stages {
		n++
		machineName := fmt.Sprintf("inplace-del-%d", n)
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			machine := b.create(machineName)
			node := b.ready(machine)
			if name == "while it drains" {
				b.pod(machine.Name, "web")
			}
			stage.prepare(b)
			b.change(machine, `{"size":2}`)
			b.setReady(node, corev1.ConditionFalse)
			for range stage.steps {
				_, _ = b.tryReconcile(machine)
			}
			b.read(machine)
			// A step may have gone to the Node, which the node controller has tainted meanwhile, or not.
			for extra := 0; extra < 3 && machine.Status.Phase != v1alpha1.MachineUpdating; extra++ {
				_, _ = b.tryReconcile(machine)
				b.read(machine)
			}
			b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineUpdating), "the test is at the wrong stage")
			b.delete(machine)
			b.ExpectReconciled(machine)
			b.Clock.Step(2*time.Hour + time.Second)
			b.remove(machine)
			b.Expect(b.gone(node)).To(BeTrue())
			b.Expect(b.instances()).To(BeEmpty())
		})
	}
}

// A crash is what a step that fails and a controller that remembers nothing add up to.
func TestUpdateInPlaceGoesOnAfterACrashAtEachStep(t *testing.T) {
	steps := map[string]func(b *env){
		"asking the driver":    func(b *env) { b.driver.Fail("CheckUpdate", trouble("crash")) },
		"cordoning":            func(b *env) { b.faults["patch *v1.Node"] = 1 },
		"updating":             func(b *env) { b.driver.Fail("Update", trouble("crash")) },
		"looking":              func(b *env) { b.driver.Fail("Get", trouble("crash")) },
		"writing the status":   func(b *env) { b.faults["patch/status *v1alpha1.Machine"] = 1 },
		"writing all statuses": func(b *env) { b.faults["patch/status *v1alpha1.Machine"] = 3 },
	}
	n := 0
	for name, breakIt := range steps {
		n++
		machineName := fmt.Sprintf("inplace-crash-%d", n)
		t.Run(name, func(t *testing.T) {
			b := newEnv(t)
			machine := b.create(machineName)
			node := b.ready(machine)
			b.change(machine, `{"size":2}`)
			breakIt(b)
			crashes := 0
			for range 8 {
				if _, err := b.tryReconcile(machine); err != nil {
					crashes++
					b.start()
				}
			}
			b.Expect(crashes).To(BeNumerically(">=", 1), "the fault was met")
			b.updated(machine)
			b.Expect(b.node(machine.Name).UID).To(Equal(node.UID))
			b.Expect(b.driver.Calls()).To(ContainElement("Update " + machineName))
		})
	}
}

// machineSet makes a MachineSet that no controller reconciles, and returns a reference to it.
func (b *env) machineSet() metav1.OwnerReference {
	b.T.Helper()
	set := &v1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "set"}}
	set.Spec.ClusterName = b.namespace
	set.Spec.Selector.MatchLabels = map[string]string{"app": "set"}
	set.Spec.Template.Metadata.Labels = set.Spec.Selector.MatchLabels
	set.Spec.Template.Spec.ProviderConfig = v1alpha1.ProviderConfig{Provider: "fake", Value: &runtime.RawExtension{Raw: []byte("{}")}}
	b.ExpectApplied(set)
	return *metav1.NewControllerRef(set, v1alpha1.GroupVersion.WithKind("MachineSet"))
}

// The edit of a class concerns every Machine of a set at once, and must not take the whole set down.
func TestAnEditOfAClassGoesRoundOneByOne(t *testing.T) {
	b := newEnv(t)
	class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "shared"}}
	class.Spec.Provider, class.Spec.ProviderConfig = "fake", &runtime.RawExtension{Raw: []byte(`{"size":1}`)}
	b.ExpectApplied(class)
	set := b.machineSet()
	var machines []*v1alpha1.Machine
	for i := range 3 {
		machine := b.create(fmt.Sprintf("classy-%d", i), func(m *v1alpha1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{set}
			m.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: class.Name}}
		})
		b.ready(machine)
		machines = append(machines, machine)
	}
	loner := b.create("classy-loner", func(m *v1alpha1.Machine) {
		m.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: class.Name}}
	})
	b.ready(loner)
	class.Spec.ProviderConfig.Raw = []byte(`{"size":2}`)
	b.ExpectApplied(class)

	b.ExpectReconciled(machines[0])
	for _, waiting := range machines[1:] {
		b.Expect(b.ExpectReconciled(waiting).RequeueAfter).To(BeNumerically("<=", turnRecheck))
		b.Expect(waiting).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingUpdate))
		b.Expect(waiting.Status.Phase).To(Equal(v1alpha1.MachineRunning))
	}
	b.updated(loner)
	b.Expect(b.woken).To(BeEmpty())
	b.Expect(b.driver.Calls()).NotTo(ContainElements("Update classy-1", "Update classy-2"))

	// A new agent knows from the conditions whose turn it is.
	b.start()
	b.ExpectReconciled(machines[1])
	b.Expect(b.driver.Calls()).NotTo(ContainElement("Update classy-1"))
	b.ExpectReconciled(machines[2])

	for i, machine := range machines {
		b.updated(machine)
		if i+1 < len(machines) {
			b.Expect(b.woken).NotTo(BeEmpty())
			b.Expect(b.woken[0]).To(Equal(machines[i+1].Name), "the next is woken")
			b.woken = nil
			b.ExpectReconciled(machines[i+1])
			b.ExpectReconciled(machines[len(machines)-1])
		}
	}
}

func TestABrokenMachineMayBeUpdatedFirst(t *testing.T) {
	b := newEnv(t)
	class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "broken"}}
	class.Spec.Provider, class.Spec.ProviderConfig = "fake", &runtime.RawExtension{Raw: []byte(`{"size":1}`)}
	b.ExpectApplied(class)
	set := b.machineSet()
	add := func(name string) *v1alpha1.Machine {
		machine := b.create(name, func(m *v1alpha1.Machine) {
			m.OwnerReferences = []metav1.OwnerReference{set}
			m.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: class.Name}}
		})
		b.ready(machine)
		return machine
	}
	well, broken, another := add("turn-well"), add("turn-broken"), add("turn-broken-too")
	for _, machine := range []*v1alpha1.Machine{broken, another} {
		b.Expect(b.driver.Set(machine.Name, driver.Failing, "crashes")).To(Succeed())
		b.ExpectReconciled(machine)
	}
	class.Spec.ProviderConfig.Raw = []byte(`{"size":2}`)
	b.ExpectApplied(class)
	b.ExpectReconciled(well)
	b.Expect(well).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionFalse, v1alpha1.ReasonAwaitingUpdate), "while a sibling is down")
	b.ExpectReconciled(broken)
	b.Expect(b.driver.Calls()).To(ContainElement("Update turn-broken"), "it takes nothing away")
	b.ExpectReconciled(another)
	b.Expect(b.driver.Calls()).To(ContainElement("Update turn-broken-too"), "nor does another, while the first is on its way")
}

func TestNodesOfOtherAgentsAreNotGivenBack(t *testing.T) {
	b := newEnv(t)
	machine := b.create("cordoned-elsewhere")
	node := b.ready(machine)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"deletion"}},"spec":{"unschedulable":true}}`, v1alpha1.NodeCordonedAnnotation)
	b.Expect(b.Client.Patch(context.Background(), node, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	b.ExpectReconciled(machine)
	b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeTrue())
	b.Expect(machine).To(haveCondition(v1alpha1.MachineUpdatedCondition, metav1.ConditionTrue, v1alpha1.ReasonUpToDate))
}
