package machinedeployment

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/reconciler/reconcilertest"
)

// A rollout continues within its budget although the hub's API server takes no status, and is told in the end.
func TestStatusWritesOfADeploymentThatFailFiftyTimesInARow(t *testing.T) {
	for name, failure := range reconcilertest.Failures() {
		t.Run(name, func(t *testing.T) {
			failing := reconcilertest.Failing(&v1alpha1.MachineDeployment{}, failure)
			f := newEnv(t, 3, &failing)
			attempts := 0
			world := func(wait time.Duration) {
				f.Clock.Step(wait)
				f.reconcileSets()
				f.FinishDeletions(f.cluster.Name)
				if attempts++; attempts == 10 {
					f.upgrade("v1.37.1")
				}
				if ready, all := f.becomeReady(); attempts > 3 {
					f.Expect(ready).To(BeNumerically(">=", 3), "fewer than three are left")
					f.Expect(all).To(BeNumerically("<=", 4), "more than one surges")
				}
			}
			done := func() bool {
				status := f.refresh().Status
				return attempts >= 10 && status.ObservedGeneration == f.deployment.Generation && status.UpdatedReplicas == 3 &&
					status.AvailableReplicas == 3 && status.Replicas == 3
			}
			history := reconcilertest.Drive(t, f.Runner, f.deployment, time.Second, world, done)
			f.Expect(len(history.At)).To(BeNumerically(">=", reconcilertest.Times))
			f.Expect(history.Busiest()).To(BeNumerically("<=", 61), "a hot loop: %v", history.At)
			f.Expect(f.list()).To(HaveLen(2), "one set for each template")
			f.Expect(f.replicasOf(f.list())).To(Equal([]int32{0, 3}))
			f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
		})
	}
}

// becomeReady does what the agent does, and counts the Machines that were Ready before, and all; neither those that go.
func (f *env) becomeReady() (ready, all int) {
	f.T.Helper()
	for _, machine := range f.Machines(f.cluster.Name) {
		if machine.DeletionTimestamp != nil {
			continue
		}
		all++
		if meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
			ready++
			continue
		}
		f.MarkReady(&machine, true, f.Clock.Now())
	}
	return ready, all
}
