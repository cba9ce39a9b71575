package machinedeployment

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// TestRolloutIsToldByItsBeginAndItsEnd: its steps are no events of the deployment, and what a user asks for meanwhile is.
func TestRolloutIsToldByItsBeginAndItsEnd(t *testing.T) {
	f := newEnv(t, 4, nil)
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy = rollingBy("1") })
	rest := func() { f.rest() }
	rest()
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("MachineSetCreated Created MachineSet " + f.list()[0].Name + " with 4 replicas for revision 1")))

	f.upgrade("v1.37.0")
	rest()
	sets := f.list()
	f.Expect(f.replicasOf(sets)).To(Equal([]int32{0, 4}))
	told := f.Events()
	f.Expect(told).To(ContainElements(
		ContainSubstring("RolloutStarted Rolling out revision 2 with strategy RollingUpdate, to MachineSet "+sets[1].Name),
		ContainSubstring("RolloutCompleted"),
	))
	f.Expect(strings.Join(told, "\n")).NotTo(Or(ContainSubstring("MachineSetScaled"), ContainSubstring("MachineSetCreated")))

	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(5)) })
	rest()
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("MachineSetScaledUp Scaled MachineSet " + sets[1].Name + " from 4 to 5 replicas: spec.replicas of the MachineDeployment is 5")))

	f.upgrade("v1.36.0")
	f.ExpectReconciled(f.deployment)
	f.reconcileSets()
	f.Events()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(8)) })
	f.ExpectReconciled(f.deployment)
	f.Expect(f.Events()).To(ContainElement(MatchRegexp("MachineSetScaledUp Scaled MachineSet .*: spec.replicas of the MachineDeployment is 8, and a rollout is in progress")), "asked for during a rollout")
}
