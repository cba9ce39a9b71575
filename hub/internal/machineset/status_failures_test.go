package machineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
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
				f.Clock.Step(wait)
				switch attempts++; attempts {
				case 5:
					for _, machine := range f.Machines(f.set.Namespace) {
						f.MarkReady(&machine, true, f.Clock.Now())
					}
				case 10:
					victim := f.Machines(f.set.Namespace)[0]
					f.ExpectDeleted(&victim)
				case 15:
					f.FinishDeletions(f.cluster.Name)
				case 20:
					for _, machine := range f.Machines(f.set.Namespace) {
						f.MarkReady(&machine, true, f.Clock.Now())
					}
				}
				f.Expect(len(f.Machines(f.set.Namespace))).To(BeNumerically("<=", 4), "three, and one that is going")
			}
			history := reconcilertest.Drive(t, f.Runner, f.set, 0, pass, func() bool { return f.refresh().Status.ReadyReplicas == 3 })
			f.Expect(len(history.At)).To(BeNumerically(">=", reconcilertest.Times))
			f.Expect(history.Busiest()).To(BeNumerically("<=", 61), "a hot loop: %v", history.At)
			status := f.refresh().Status
			f.Expect([]int32{status.Replicas, status.AvailableReplicas}).To(Equal([]int32{3, 3}))
			f.Expect(status.ObservedGeneration).To(Equal(f.set.Generation))
			f.Expect(f.ReadCondition(f.set, v1alpha1.AvailableCondition)).To(HaveField("Status", metav1.ConditionTrue))
			counts := f.Writes.Counts()
			f.Expect(counts["create Machine"]).To(Equal(4))
			f.Expect(counts["delete Machine"]).To(BeZero())
		})
	}
}
