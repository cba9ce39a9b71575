package machineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestCountsAreWrittenTogether(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.ExpectReconciled(f.set)
	f.ExpectReconciled(f.set)
	f.Clock.Step(reconciler.StatusInterval)
	f.ExpectReconciled(f.set)
	machines := f.Machines(f.set.Namespace)
	f.Writes.Counts()

	f.MarkReady(&machines[0], true, f.Clock.Now())
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(reconciler.StatusInterval), "the last write was just now")
	f.Clock.Step(2 * time.Second)
	f.MarkReady(&machines[1], true, f.Clock.Now())
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(reconciler.StatusInterval-2*time.Second), "the deadline does not move")
	f.Expect(f.Writes.Counts()).To(BeEmpty())
	f.Clock.Step(reconciler.StatusInterval - 2*time.Second)
	f.ExpectReconciled(f.set)
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(2))
	f.MarkReady(&machines[2], true, f.Clock.Now())
	f.ExpectReconciled(f.set)
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(3), "a set that has come to rest says so at once")
	f.Expect(f.ReadCondition(f.set, v1alpha1.AvailableCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"patch MachineSet/status": 2}))
}

func minReadySecondsEndsAtItsDeadline(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 30 })
	f.ExpectReconciled(f.set)
	machine := f.Machines(f.set.Namespace)[0]
	since := f.Clock.Now().Truncate(time.Second)
	f.MarkReady(&machine, true, since)
	f.Clock.SetTime(since.Add(10 * time.Second))
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(20 * time.Second))
	f.Expect(f.refresh().Status.ReadyReplicas).To(BeEquivalentTo(1))
	f.Expect(f.set.Status.AvailableReplicas).To(BeZero())
	f.Clock.SetTime(since.Add(30 * time.Second))
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(BeZero())
	f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(1))
}

// What follows from silence is nothing that a scheduler or an autoscaler could see, neither in a freeze nor at its end.
func TestMinReadySecondsDoNotPassWhileTheClusterIsFrozen(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.Clock.SetTime(f.Clock.Now().Truncate(time.Second))
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 3600 })
	f.ExpectReconciled(f.set)
	machines := f.Machines(f.set.Namespace)
	f.MarkReady(&machines[0], true, f.Clock.Now().Add(-time.Hour))
	f.MarkReady(&machines[1], true, f.Clock.Now())
	f.pass(10 * time.Minute)
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(50 * time.Minute))
	silent := freeze.Verdict{Frozen: true, Reason: v1alpha1.ReasonAgentSilent}
	availableIn := func(available int, after time.Duration) {
		t.Helper()
		for f.Writes.Counts(); ; {
			result := f.ExpectReconciled(f.set)
			if f.Writes.Total() > 0 {
				continue // It may have had a write to make up for.
			}
			f.Expect(result.RequeueAfter).To(Equal(after))
			f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(available))
			return
		}
	}
	freeze.RecordOnCluster(f.cluster, silent, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	availableIn(1, 0)
	f.pass(2 * time.Hour)
	availableIn(1, 0)
	freeze.RecordOnCluster(f.cluster, freeze.Verdict{}, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	availableIn(1, 50*time.Minute)
	f.Runner = f.another(nil)
	availableIn(1, 50*time.Minute)
	f.pass(20 * time.Minute)
	freeze.RecordOnCluster(f.cluster, silent, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	f.pass(2 * time.Hour)
	freeze.RecordOnCluster(f.cluster, freeze.Verdict{}, f.Clock.Now())
	f.ExpectStatusApplied(f.cluster)
	availableIn(1, 30*time.Minute)
	f.pass(30*time.Minute - time.Second)
	availableIn(1, time.Second)
	f.pass(time.Second)
	availableIn(2, 0)
}

// A person who freezes one set stops what the hub does for it. Its Machines are seen all along, so they serve their time.
func TestMinReadySecondsPassWhileASetAloneIsFrozen(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.Clock.SetTime(f.Clock.Now().Truncate(time.Second))
	f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 300 })
	f.ExpectReconciled(f.set)
	machine := f.Machines(f.set.Namespace)[0]
	f.MarkReady(&machine, true, f.Clock.Now())
	f.update(func(set *v1alpha1.MachineSet) {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.FreezeAnnotation, "an experiment")
	})
	f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(5 * time.Minute))
	f.pass(5 * time.Minute)
	f.ExpectReconciled(f.set)
	f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(1))
}

// An agent whose clock is behind writes times at which, by the hub's clock, the Machine was not Ready yet.
// Edge case: minReadySeconds mixed clocks. Also: hub/internal/freeze TestTheClockIsCorrectedByTheSkew.
func TestMinReadySecondsAreThoseOfOneClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"the agent is behind": -5 * time.Minute, "the agent is ahead": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			f := newEnv(t, 1, nil)
			f.Clock.SetTime(f.Clock.Now().Truncate(time.Second))
			f.update(func(set *v1alpha1.MachineSet) { set.Spec.MinReadySeconds = 300 })
			f.cluster.Status.ClockSkew = &metav1.Duration{Duration: ahead}
			f.ExpectStatusApplied(f.cluster)
			f.ExpectReconciled(f.set)
			machine := f.Machines(f.set.Namespace)[0]
			f.MarkReady(&machine, true, f.Clock.Now().Add(ahead))
			f.pass(100 * time.Second)
			f.Runner = f.another(nil) // A restart forgets nothing.
			f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(Equal(200 * time.Second))
			f.Expect(f.refresh().Status.AvailableReplicas).To(BeZero())
			f.pass(200 * time.Second)
			f.ExpectReconciled(f.set)
			f.Expect(f.refresh().Status.AvailableReplicas).To(BeEquivalentTo(1))
		})
	}
}
