package machinedeployment

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A Machine that a user deletes may be gone within a moment, and its set would make another of the old template.
func TestADeletedMachineLosesItsPlaceInTheOldSetAtOnce(t *testing.T) {
	for name, strategy := range map[string]v1alpha1.MachineDeploymentStrategy{
		"OnDelete": {Type: v1alpha1.OnDelete},
		"InPlace":  {Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{Trigger: v1alpha1.InPlaceManual}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 4, nil)
			f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Strategy = strategy })
			f.rest()
			f.upgrade("v1.37.0")
			f.rest()
			f.Expect(f.replicasOf(f.list())).To(Equal([]int32{4, 0}))

			victim := f.Machines(f.cluster.Name)[0]
			f.ExpectDeleted(&victim)
			f.ExpectReconciled(f.deployment)
			f.Expect(f.replicasOf(f.list())[0]).To(BeEquivalentTo(3), "without any time passing")
			f.rest()
			f.Expect(f.replicasOf(f.list())).To(Equal([]int32{3, 1}))
		})
	}
}
