package machinedeployment

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// A Machine whose Node is Ready with another kubelet than was asked for ends no rollout, and takes no place of an available one.
func TestANodeWithAnotherKubeletIsNotAvailable(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	f.upgrade("v1.37.0")
	report := func(version string) {
		for range 8 {
			f.step()
			f.reconcileSets()
			f.FinishDeletions(f.cluster.Name)
			for _, machine := range f.Machines(f.cluster.Name) {
				if machine.Spec.Versions.Kubelet != "v1.37.0" {
					continue
				}
				machine.Status.Versions = &v1alpha1.ObservedVersions{Kubelet: version}
				f.ExpectStatusApplied(&machine)
				f.ExpectExists(&machine)
				f.MarkReady(&machine, true, f.Clock.Now())
			}
		}
		f.step()
	}
	report("v1.36.2")
	status := f.refresh().Status
	f.Expect([]int32{status.UpdatedReplicas, status.ReadyReplicas, status.AvailableReplicas}).To(Equal([]int32{1, 3, 2}), "the two of the old template stay")
	progress := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(progress.Reason).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(progress.Message).To(ContainSubstring("the Node reports a kubelet version other than the requested one: "))
	report("v1.37.0")
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
}
