package machineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/hubtest"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestCountsAreWrittenTogether(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.reconcile()
	f.reconcile()
	f.clock.SetTime(f.clock.Now().Add(reconciler.StatusInterval))
	f.reconcile()
	machines := f.machines()
	f.writes.Counts()

	hubtest.MarkReady(t, f.direct, &machines[0], true, f.clock.Now())
	f.Expect(f.reconcile().RequeueAfter).To(Equal(reconciler.StatusInterval), "the last write was just now")
	f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
	hubtest.MarkReady(t, f.direct, &machines[1], true, f.clock.Now())
	f.Expect(f.reconcile().RequeueAfter).To(Equal(reconciler.StatusInterval-2*time.Second), "the deadline does not move")
	f.Expect(f.writes.Counts()).To(BeEmpty())
	f.clock.SetTime(f.clock.Now().Add(reconciler.StatusInterval - 2*time.Second))
	f.reconcile()
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(2))
	hubtest.MarkReady(t, f.direct, &machines[2], true, f.clock.Now())
	f.reconcile()
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(3), "a set that has come to rest says so at once")
	f.Expect(f.condition(v1alpha1.AvailableCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.writes.Counts()).To(Equal(map[string]int{"patch MachineSet/status": 2}))
}

func minReadySecondsEndsAtItsDeadline(t *testing.T) {
	f := newEnv(t, 1, nil)
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

// What follows from silence is nothing that a scheduler or an autoscaler could see, neither in a freeze nor at its end.
func TestMinReadySecondsDoNotPassWhileTheClusterIsFrozen(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.clock.SetTime(f.clock.Now().Truncate(time.Second))
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 3600 })
	f.reconcile()
	machines := f.machines()
	hubtest.MarkReady(t, f.direct, &machines[0], true, f.clock.Now().Add(-time.Hour))
	hubtest.MarkReady(t, f.direct, &machines[1], true, f.clock.Now())
	f.pass(10 * time.Minute)
	f.Expect(f.reconcile().RequeueAfter).To(Equal(50 * time.Minute))
	silent := freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonAgentSilent}
	availableIn := func(available int, after time.Duration) {
		t.Helper()
		for f.writes.Counts(); ; {
			result := f.reconcile()
			if f.writes.Total() > 0 {
				continue // It may have had a write to make up for.
			}
			f.Expect(result.RequeueAfter).To(Equal(after))
			f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(available))
			return
		}
	}
	hubtest.Freeze(t, f.direct, f.cluster, silent, f.clock.Now())
	availableIn(1, 0)
	f.pass(2 * time.Hour)
	availableIn(1, 0)
	hubtest.Freeze(t, f.direct, f.cluster, freeze.Verdict{}, f.clock.Now())
	availableIn(1, 50*time.Minute)
	f.runner = f.another(nil)
	availableIn(1, 50*time.Minute)
	f.pass(20 * time.Minute)
	hubtest.Freeze(t, f.direct, f.cluster, silent, f.clock.Now())
	f.pass(2 * time.Hour)
	hubtest.Freeze(t, f.direct, f.cluster, freeze.Verdict{}, f.clock.Now())
	availableIn(1, 30*time.Minute)
	f.pass(30*time.Minute - time.Second)
	availableIn(1, time.Second)
	f.pass(time.Second)
	availableIn(2, 0)
}

// A person who freezes one set stops what the hub does for it. Its Machines are seen all along, so they serve their time.
func TestMinReadySecondsPassWhileASetAloneIsFrozen(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.clock.SetTime(f.clock.Now().Truncate(time.Second))
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 300 })
	f.reconcile()
	machine := f.machines()[0]
	hubtest.MarkReady(t, f.direct, &machine, true, f.clock.Now())
	f.update(func(set *v1alpha1.MachineSet) {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.FreezeAnnotation, "an experiment")
	})
	f.Expect(f.reconcile().RequeueAfter).To(Equal(5 * time.Minute))
	f.pass(5 * time.Minute)
	f.reconcile()
	f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(1))
}

// An agent whose clock is behind writes times at which, by the hub's clock, the Machine was not Ready yet.
// Edge case: minReadySeconds mixed clocks. Also: hub/internal/freeze TestTheClockIsCorrectedByTheSkew.
func TestMinReadySecondsAreThoseOfOneClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"the agent is behind": -5 * time.Minute, "the agent is ahead": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 1, nil)
			f.clock.SetTime(f.clock.Now().Truncate(time.Second))
			f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 300 })
			f.cluster.Status.ClockSkew = &metav1.Duration{Duration: ahead}
			f.Expect(f.direct.Status().Update(t.Context(), f.cluster)).To(Succeed())
			f.reconcile()
			machine := f.machines()[0]
			hubtest.MarkReady(t, f.direct, &machine, true, f.clock.Now().Add(ahead))
			f.pass(100 * time.Second)
			f.runner = f.another(nil) // A restart forgets nothing.
			f.Expect(f.reconcile().RequeueAfter).To(Equal(200 * time.Second))
			f.Expect(f.refresh().Status.AvailableReplicas).To(BeZero())
			f.pass(200 * time.Second)
			f.reconcile()
			f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(1))
		})
	}
}
