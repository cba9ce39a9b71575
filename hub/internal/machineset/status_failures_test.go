package machineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/internal/reconciler/reconcilertest"
)

// What a set does does not hang on whether it can tell: its Machines are made once, one that goes is replaced once, and
// in the end the hub has the status.
func TestStatusWritesOfASetThatFailFiftyTimesInARow(t *testing.T) {
	for name, failure := range reconcilertest.Failures() {
		t.Run(name, func(t *testing.T) {
			failing := reconcilertest.Failing(&v1alpha1.MachineSet{}, failure)
			f := newEnv(t, 3, &failing)
			attempts := 0
			pass := func(wait time.Duration) {
				f.clock.SetTime(f.clock.Now().Add(wait))
				switch attempts++; attempts {
				case 5:
					for _, machine := range f.machines() {
						hubtest.MarkReady(t, f.direct, &machine, true, f.clock.Now())
					}
				case 10:
					victim := f.machines()[0]
					f.Expect(f.direct.Delete(t.Context(), &victim)).To(Succeed())
				case 15:
					hubtest.FinishDeletions(t, f.direct, f.cluster.Name)
				case 20:
					for _, machine := range f.machines() {
						hubtest.MarkReady(t, f.direct, &machine, true, f.clock.Now())
					}
				}
				f.Expect(len(f.machines())).To(BeNumerically("<=", 4), "three, and one that is going")
			}
			history := reconcilertest.Drive(t, f.runner, f.set, 0, pass, func() bool { return f.refresh().Status.ReadyReplicas == 3 })
			f.Expect(len(history.At)).To(BeNumerically(">=", reconcilertest.Times))
			f.Expect(history.Busiest()).To(BeNumerically("<=", 61), "a hot loop: %v", history.At)
			status := f.refresh().Status
			f.Expect([]int32{status.Replicas, status.AvailableReplicas}).To(Equal([]int32{3, 3}))
			f.Expect(status.ObservedGeneration).To(Equal(f.set.Generation))
			f.Expect(f.condition(v1alpha1.AvailableCondition)).To(HaveField("Status", metav1.ConditionTrue))
			counts := f.writes.Counts()
			f.Expect(counts["create Machine"]).To(Equal(4))
			f.Expect(counts["delete Machine"]).To(BeZero())
		})
	}
}
