package machinedeployment

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	machinesets "github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

// A drain that holds a rollout up is one of an old Machine.
func TestTimeoutsReachTheMachinesOfOlderTemplatesAndNothingElseDoes(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.rest()
	f.upgrade("v1.37.0")
	f.rest()
	f.upgrade("v1.37.1")
	for range 2 {
		f.ExpectReconciled(f.deployment)
		f.reconcileSets()
	}
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Template.Spec.Timeouts = &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{Duration: time.Minute}}
		deployment.Spec.Template.Spec.Roles = []string{"worker"}
	})
	for range 2 {
		f.ExpectReconciled(f.deployment)
		f.reconcileSets()
	}
	sets := f.list()
	f.Expect(sets).To(HaveLen(3))
	f.Expect(sets[0].Spec.Template.Spec.Timeouts).To(BeNil(), "it has no machines, and is what it was")
	f.Expect(sets[1].Spec.Template.Spec.Timeouts.Drain.Duration).To(Equal(time.Minute))
	f.Expect(sets[1].Spec.Template.Spec.Roles).To(BeEmpty(), "what was tried together stays together")
	f.Expect(sets[1].Spec.Template.Spec.Versions.Kubelet).To(Equal("v1.37.0"), "it is still what a rollback goes back to")
	old := 0
	for _, machine := range f.Machines(f.cluster.Name) {
		f.Expect(machine.Spec.Timeouts.Drain.Duration).To(Equal(time.Minute))
		if machine.Spec.Versions.Kubelet == "v1.37.0" {
			old++
		}
	}
	f.Expect(old).To(BeNumerically(">", 0), "the rollout is under way")
	f.rest()
	f.Expect(f.list()).To(HaveLen(3), "timeouts are no part of a revision")
}

func TestAMachineKeepsWhatAPersonSetOnItWhenItIsUpdatedInPlace(t *testing.T) {
	g := NewWithT(t)
	source, target := &v1alpha1.MachineSet{}, &v1alpha1.MachineSet{}
	source.Spec.Template.Spec.Timeouts = &v1alpha1.MachineTimeouts{Health: &metav1.Duration{Duration: time.Hour}}
	target.Spec.Template.Spec.Timeouts = &v1alpha1.MachineTimeouts{Health: &metav1.Duration{Duration: 2 * time.Hour}}
	target.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
	target.Spec.Template.Spec.ProviderConfig.Provider = "other"
	machine := &v1alpha1.Machine{}
	machinesets.TemplateOf(source).Give(machine)
	machine.Spec.Timeouts.Drain = &metav1.Duration{Duration: time.Minute}
	assignToSet(machine, source, target, 2)
	g.Expect(machine.Spec.Versions.Kubelet).To(Equal("v1.37.0"))
	g.Expect(machine.Spec.ProviderConfig.Provider).To(Equal("other"))
	g.Expect(machine.Spec.Timeouts.Health.Duration).To(Equal(2*time.Hour), "no user has set it on the machine")
	g.Expect(machine.Spec.Timeouts.Drain.Duration).To(Equal(time.Minute), "a person's")
}
