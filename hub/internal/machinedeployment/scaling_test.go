package machinedeployment

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// The deployment is scaled while a set's controller has not seen its last order: the sets must still know afterwards for
// which number they were scaled, so that each gets its share.
func TestAScaleUpBetweenTwoStepsIsSharedOut(t *testing.T) {
	f := newEnv(t, 6, nil)
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy = rollingBy("2") })
	f.rest()
	f.upgrade("v1.37.0")
	f.ExpectReconciled(f.deployment)
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{6, 2}), "a step was ordered, and the sets have not seen it")
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(12)) })
	f.ExpectReconciled(f.deployment)
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{6, 2}), "it waits for the sets")
	f.reconcileSets()
	f.ExpectReconciled(f.deployment)
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{9, 3}), "the old set gets its share")
	f.rest()
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{0, 12}))
}
