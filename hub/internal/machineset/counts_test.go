package machineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/hub/internal/pace"
)

func TestCountsAreWrittenTogether(t *testing.T) {
	f := newFixture(t, 3, nil)
	f.reconcile()
	f.reconcile()
	f.clock.SetTime(f.clock.Now().Add(pace.Interval))
	f.reconcile()
	machines := f.machines()
	f.writes.Counts()

	hubtest.MarkReady(t, f.direct, &machines[0], true, f.clock.Now())
	f.Expect(f.reconcile().RequeueAfter).To(Equal(pace.Interval), "the last write was just now")
	f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
	hubtest.MarkReady(t, f.direct, &machines[1], true, f.clock.Now())
	f.Expect(f.reconcile().RequeueAfter).To(Equal(pace.Interval-2*time.Second), "the deadline does not move")
	f.Expect(f.writes.Counts()).To(BeEmpty())
	f.clock.SetTime(f.clock.Now().Add(pace.Interval - 2*time.Second))
	f.reconcile()
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(2))
	hubtest.MarkReady(t, f.direct, &machines[2], true, f.clock.Now())
	f.reconcile()
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(3), "a set that has come to rest says so at once")
	f.Expect(f.condition(v1alpha1.AvailableCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.writes.Counts()).To(Equal(map[string]int{"patch MachineSet/status": 2}))
}

func minReadySecondsEndsAtItsDeadline(t *testing.T) {
	f := newFixture(t, 1, nil)
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 30 })
	f.reconcile()
	machine := f.machines()[0]
	since := f.clock.Now().Truncate(time.Second)
	hubtest.MarkReady(t, f.direct, &machine, true, since)
	f.clock.SetTime(since.Add(10 * time.Second))
	f.Expect(f.reconcile().RequeueAfter).To(Equal(20 * time.Second))
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(1))
	f.Expect(f.set.Status.AvailableReplicas).To(BeZero())
	f.clock.SetTime(since.Add(30 * time.Second))
	f.Expect(f.reconcile().RequeueAfter).To(BeZero())
	f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(1))
}

// What follows from silence is nothing that a scheduler or an autoscaler could see.
func TestMinReadySecondsDoNotPassWhileTheClusterIsFrozen(t *testing.T) {
	f := newFixture(t, 1, nil)
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 3600 })
	f.reconcile()
	machine := f.machines()[0]
	hubtest.MarkReady(t, f.direct, &machine, true, f.clock.Now())
	f.silence()
	f.pass(2 * time.Hour)
	f.Expect(f.reconcile().RequeueAfter).To(BeZero(), "there is nothing to wake for before the thaw")
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(1))
	f.Expect(f.set.Status.AvailableReplicas).To(BeZero())
	f.speak()
	f.reconcile()
	f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(1))
}
