package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func TestHealth(t *testing.T) {
	t.Run("should fail what is not Ready in time, exactly then, and forgive it when it is", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("health-creation")
		b.Clock.SetTime(machine.CreationTimestamp.Time)
		b.ExpectReconciled(machine)
		node := b.join(machine)
		b.ExpectReconciled(machine)
		b.Clock.Step(19 * time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(time.Minute), "it wakes exactly at the deadline")
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineProvisioning))
		b.Events()
		b.Clock.Step(time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineFailed))
		b.Expect(machine.Status.ErrorReason).To(Equal(v1alpha1.ErrorCreationTimeout))
		b.Expect(machine.Status.FailureMessage).To(ContainSubstring("was not Ready within 20m0s"))
		b.Expect(machine).To(haveCondition(v1alpha1.MachineConfigurationValidCondition, metav1.ConditionTrue, v1alpha1.ReasonValid))
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring("Warning CreationTimeout")))

		b.setReady(node, corev1.ConditionTrue)
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineRunning))
		b.Expect(machine.Status.ErrorReason).To(BeEmpty())
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring("Normal Recovered")))
	})
	t.Run("should fail what stays unhealthy, not counting frozen time", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("health-timeout", func(m *v1alpha1.Machine) {
			m.Spec.Timeouts = &v1alpha1.MachineTimeouts{Health: &metav1.Duration{Duration: 5 * time.Minute}}
		})
		node := b.ready(machine)
		b.setReady(node, corev1.ConditionUnknown)
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineHealthyCondition, metav1.ConditionFalse, v1alpha1.ReasonNodeStatusUnknown))
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring("Warning NodeStatusUnknown The machine is no longer healthy")))
		b.Clock.Step(time.Hour)
		b.frozenFor = 58 * time.Minute
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(BeNumerically("~", 3*time.Minute, time.Second))
		b.Expect(machine.Status.ErrorReason).To(BeEmpty())
		b.Clock.Step(3 * time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.ErrorReason).To(Equal(v1alpha1.ErrorHealthTimeout))
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineFailed))

		// An agent that starts over counts what was before as frozen, and takes nothing back.
		b.start()
		b.frozenFor = 100 * time.Hour
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.ErrorReason).To(Equal(v1alpha1.ErrorHealthTimeout))
		b.setReady(node, corev1.ConditionTrue)
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.ErrorReason).To(BeEmpty(), "it has recovered before it was replaced")
		b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineRunning))
	})
	// Edge case: Unhealthy conditions are empty by default.
	t.Run("should fail what its Node's own conditions call unhealthy when nothing is set", func(t *testing.T) {
		for name, befall := range map[string]func(*env, *corev1.Node){
			"not-ready": func(b *env, node *corev1.Node) { b.setReady(node, corev1.ConditionFalse) },
			"silent":    func(b *env, node *corev1.Node) { b.setReady(node, corev1.ConditionUnknown) },
			"gone":      func(b *env, node *corev1.Node) { b.ExpectDeleted(node) },
		} {
			t.Run(name, func(t *testing.T) {
				b := newEnv(t)
				machine := b.create("health-default-" + name)
				b.Expect(machine.Spec.Timeouts).To(BeNil())
				b.Expect(machine.Spec.UnhealthyNodeConditions).To(BeEmpty())
				befall(b, b.ready(machine))
				b.ExpectReconciled(machine)
				b.Clock.Step(9 * time.Minute)
				b.ExpectReconciled(machine)
				b.Expect(machine.Status.ErrorReason).To(BeEmpty())
				b.Clock.Step(2 * time.Minute)
				b.ExpectReconciled(machine)
				b.Expect(machine.Status.ErrorReason).To(Equal(v1alpha1.ErrorHealthTimeout), "its MachineSet replaces it for that")
				b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineFailed))
			})
		}
	})
	t.Run("should mind the listed conditions of the class", func(t *testing.T) {
		b := newEnv(t)
		class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "watched"}}
		class.Spec.Provider, class.Spec.UnhealthyNodeConditions = "fake", []string{"KernelDeadlock"}
		b.ExpectApplied(class)
		machine := b.create("health-listed", func(m *v1alpha1.Machine) {
			m.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: class.Name}}
		})
		node := b.ready(machine)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue, Message: "task hung"})
		b.Eventually(func() error {
			live := b.node(node.Name)
			live.Status.Conditions = node.Status.Conditions
			return b.Client.Status().Update(b.T.Context(), live)
		}).Should(Succeed())
		b.ExpectReconciled(machine)
		b.Expect(machine).To(haveCondition(v1alpha1.MachineHealthyCondition, metav1.ConditionFalse, v1alpha1.ReasonUnhealthyNodeCondition))
		b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonUnhealthyNodeCondition))
		b.Expect(b.Events()).To(ConsistOf(And(ContainSubstring("Warning UnhealthyNodeCondition"), ContainSubstring("task hung"))))
		b.ExpectReconciled(machine)
		b.Expect(b.Events()).To(BeEmpty(), "told once")
		b.setReady(node, corev1.ConditionTrue)
		b.ExpectReconciled(machine)
		b.Expect(b.Events()).To(ConsistOf(ContainSubstring("Normal Healthy The machine is healthy again after UnhealthyNodeCondition")))
	})
	t.Run("should count the creation again when the user has put the configuration right", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("health-fixed", func(m *v1alpha1.Machine) {
			m.Spec.ProviderConfig = v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "fixed"}}
		})
		b.ExpectReconciled(machine)
		b.Clock.Step(time.Hour)
		class := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "fixed"}, Spec: v1alpha1.MachineClassSpec{Provider: "fake"}}
		b.ExpectApplied(class)
		for range 2 {
			b.ExpectReconciled(machine)
		}
		b.Expect(machine.Status.ErrorReason).To(BeEmpty())
	})
}

// Claim: A repaired Machine keeps its kubelet. Broken: each Machine without an instance is judged.
func TestVersionSkew(t *testing.T) {
	b := newEnv(t)
	machine := b.create("skew", func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v1.33.0" })
	b.ExpectReconciled(machine)
	b.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineFailed))
	b.Expect(machine.Status.ErrorReason).To(Equal(v1alpha1.ErrorUnsupportedKubeletVersion))
	b.Expect(b.driver.Calls()).To(BeEmpty(), "something was made of it")
	machine.Annotations = map[string]string{v1alpha1.AllowKubeletVersionSkewAnnotation: "true"}
	b.ExpectApplied(machine)
	b.ExpectReconciled(machine)
	b.Expect(b.driver.Calls()).To(HaveLen(1), "the user allows it")

	older := b.create("skew-server")
	b.serverVersion = "v1.37.1"
	b.ready(older)
	b.read(older)
	older.Spec.Versions.Kubelet = "v1.34.0"
	b.ExpectApplied(older)
	b.serverVersion = "v1.38.0"
	b.ExpectReconciled(older)
	b.Expect(older.Status.ErrorReason).To(BeEmpty(), "a node that runs is not failed by an upgrade of its API server")

	b.serverVersion = "v1.37.1"
	old := b.create("skew-lost", func(m *v1alpha1.Machine) { m.Spec.Versions.Kubelet = "v1.37.1" })
	b.ready(old)
	b.serverVersion = "v1.41.0"
	b.driver.Finish(old.Name)
	made := len(b.driver.Calls())
	b.ExpectReconciled(old)
	b.Expect(old.Status.ErrorReason).To(BeEmpty(), "a node that ran is not lost to an upgrade of its API server")
	b.Expect(b.driver.Calls()).To(HaveLen(made+1), "its instance is recreated")
	b.read(old)
	old.Spec.Versions.Kubelet = "v1.36.0"
	b.ExpectApplied(old)
	b.driver.Finish(old.Name)
	b.ExpectReconciled(old)
	b.Expect(old.Status.ErrorReason).To(Equal(v1alpha1.ErrorUnsupportedKubeletVersion), "one that it never ran is refused")
}
