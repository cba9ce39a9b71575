package machine

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// configured gives a Machine a content, as the hub does.
func configured(content string) func(*v1alpha1.Machine) {
	return func(machine *v1alpha1.Machine) {
		machine.Spec.ConfigSource = &v1alpha1.ConfigSource{Key: "workers"}
		if content != "" {
			machine.Spec.ConfigSource.Resolved = &v1alpha1.ResolvedConfigSource{Key: "workers", Content: content}
		}
	}
}

// Claim: Nothing is made until the hub has taken a Machine's configuration. Broken: an instance without it.
func TestAMachineWaitsForItsConfiguration(t *testing.T) {
	b := newEnv(t)
	b.driver.AcceptKubeletConfigurations()
	machine := b.create("waits", configured(""))
	b.ExpectReconciled(machine)
	b.Clock.Step(2 * DefaultStallAfter)
	b.ExpectReconciled(machine)
	b.Expect(b.driver.Calls()).To(BeEmpty())
	b.Expect(machine).To(haveCondition(v1alpha1.MachineConfigurationValidCondition, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingConfigSource))
	b.Expect(machine.Status.ConfigSource.Error).To(ContainSubstring("the hub has not taken key workers of ConfigMap " + b.namespace + "/hollowfleet-kubelet yet"))
	b.Clock.Step(2 * DefaultCreationTimeout)
	b.ExpectReconciled(machine)
	b.Expect(machine.Status.ErrorReason).To(BeEmpty(), "the time until then counts")

	configured("one")(machine)
	b.ExpectApplied(machine)
	b.ready(machine)
	one := v1alpha1.ContentHash("one")
	b.Expect(*machine.Status.ConfigSource).To(Equal(v1alpha1.MachineConfigStatus{Assigned: one, Active: one, LastKnownGood: one}))

	b.read(machine)
	machine.Spec.ConfigSource.Key = "others"
	b.ExpectApplied(machine)
	b.ExpectReconciled(machine)
	b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady))
	b.Expect(machine.Status.ConfigSource.Active).To(Equal(one))
	b.Expect(b.driver.Calls()).To(Equal([]string{"Create waits"}))
}

// Claim: A node keeps the last good configuration when its next one is refused. Broken: it is drained first. Also: test/integration/lifecycle "should roll out in place, stop where it is refused, and go back".
func TestARefusedConfigurationLeavesTheLastGoodOne(t *testing.T) {
	b := newEnv(t)
	b.driver.AcceptKubeletConfigurations()
	machine := b.create("keeps", configured("one"))
	b.ready(machine)
	one, two, bad := v1alpha1.ContentHash("one"), v1alpha1.ContentHash("two"), v1alpha1.ContentHash(`"invalid"`)
	assign := func(content string) {
		b.read(machine)
		configured(content)(machine)
		b.ExpectApplied(machine)
	}
	assign(`"invalid"`)
	for range 3 {
		b.ExpectReconciled(machine)
	}
	b.Expect(machine).To(haveCondition(v1alpha1.ReadyCondition, metav1.ConditionTrue, v1alpha1.ReasonReady))
	b.Expect(b.node(machine.Name).Spec.Unschedulable).To(BeFalse())
	b.Expect(*machine.Status.ConfigSource).To(Equal(v1alpha1.MachineConfigStatus{
		Assigned: bad, Active: one, LastKnownGood: one, Error: "providerConfig.invalid: unknown field: remove it",
	}))

	assign("two")
	b.updated(machine)
	b.Expect(*machine.Status.ConfigSource).To(Equal(v1alpha1.MachineConfigStatus{Assigned: two, Active: two, LastKnownGood: two}))

	node := b.node(machine.Name)
	b.setReady(node, corev1.ConditionFalse)
	assign("one")
	for range 5 {
		b.ExpectReconciled(machine)
	}
	b.Expect(machine.Status.ConfigSource.Active).To(Equal(one))
	b.Expect(machine.Status.ConfigSource.LastKnownGood).To(Equal(two), "its Node was not Ready with the other")

	b.read(machine)
	machine.Spec.ConfigSource = nil
	b.ExpectApplied(machine)
	b.setReady(b.node(machine.Name), corev1.ConditionTrue)
	b.updated(machine)
	b.Expect(machine.Status.ConfigSource).To(BeNil())
}

func TestAProviderWithoutKubeletConfigurationsRefusesThem(t *testing.T) {
	b := newEnv(t)
	machine := b.create("refused", configured("one"))
	b.ExpectReconciled(machine)
	b.Expect(b.driver.Calls()).To(BeEmpty())
	b.Expect(machine.Status.ErrorMessage).To(Equal(`spec.configSource: provider "fake" takes no KubeletConfiguration: remove the field, or use provider hollow`))
	b.Expect(machine.Status.ConfigSource.Error).To(Equal(machine.Status.ErrorMessage))
}
