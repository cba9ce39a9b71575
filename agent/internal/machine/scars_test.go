package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/agent/internal/freeze"
	"github.com/hollowfleet/hollowfleet/agent/internal/poll"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// TestScars has failures of other machine controllers.
func TestScars(t *testing.T) {
	// Edge case: MCM #81–#88, #718, #346: Pending machines time out after a freeze.
	t.Run("MCM #81–#88, #718, #346: should not fail a pending machine right after a freeze", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("pending-thaw")
		b.Clock.SetTime(machine.CreationTimestamp.Time)
		b.ExpectReconciled(machine)
		b.Clock.Step(10 * time.Hour)
		b.frozenFor = 10*time.Hour - time.Minute
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(BeNumerically("<=", 19*time.Minute))
		b.Expect(machine.Status.ErrorReason).To(BeEmpty())
		b.Clock.Step(19 * time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(machine.Status.ErrorReason).To(Equal(v1alpha1.ErrorCreationTimeout), "the time that was not frozen counts")
	})
}

// age gives a Machine conditions of hours ago, as an earlier drain has left them.
func (b *env) age(machine *v1alpha1.Machine, drained metav1.ConditionStatus, drainedReason, updatedReason string) {
	b.T.Helper()
	b.read(machine)
	old := metav1.NewTime(b.Clock.Now().Add(-9 * time.Hour).Truncate(time.Second))
	meta.RemoveStatusCondition(&machine.Status.Conditions, v1alpha1.MachineUpdatedCondition)
	for i := range machine.Status.Conditions {
		machine.Status.Conditions[i].LastTransitionTime = old
	}
	machine.Status.LastUpdated = &old
	for _, condition := range []metav1.Condition{
		{Type: v1alpha1.MachineDrainedCondition, Status: drained, Reason: drainedReason},
		{Type: v1alpha1.MachineUpdatedCondition, Status: metav1.ConditionFalse, Reason: updatedReason},
	} {
		condition.LastTransitionTime, condition.ObservedGeneration = old, machine.Generation
		machine.Status.Conditions = append(machine.Status.Conditions, condition)
	}
	b.ExpectStatusApplied(machine)
}

// earlier are the conditions Drained and Updated that a drain may have left.
var earlier = map[string]struct {
	status           metav1.ConditionStatus
	drained, updated string
}{
	"a drain that was through":                 {metav1.ConditionTrue, v1alpha1.ReasonDrained, v1alpha1.ReasonUpdating},
	"a drain that was through in vain":         {metav1.ConditionTrue, v1alpha1.ReasonDrained, v1alpha1.ReasonUpdateFailed},
	"a drain that was given up":                {metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonUpdating},
	"a drain that was given up in vain":        {metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonUpdateFailed},
	"a drain that was given up before a step":  {metav1.ConditionFalse, v1alpha1.ReasonDrainTimedOut, v1alpha1.ReasonDraining},
	"a drain that an invalid class has broken": {metav1.ConditionFalse, v1alpha1.ReasonDraining, v1alpha1.ReasonUpdateFailed},
	"a drain that was ordered and taken back":  {metav1.ConditionFalse, v1alpha1.ReasonMisconfiguredBudget, v1alpha1.ReasonUpdating},
}

// Edge case: MCM #563: stale timestamps force a drain. Also: "MCM #563: should wait for a deletion that is in the future by the agent's clock", "MCM #563: should continue where the agent before left a deletion", "MCM #563: should continue where the agent before left an update in place", "MCM #563: should give its whole time to what was deleted while no agent ran".
func TestStaleTimesForceNoDrain(t *testing.T) {
	for name, left := range earlier {
		t.Run("MCM #563: should give a deletion its whole time after "+name, func(t *testing.T) {
			b := newEnv(t)
			machine := b.create("stale-deletion")
			b.ready(machine)
			b.age(machine, left.status, left.drained, left.updated)
			b.pod(machine.Name, "web")
			b.delete(machine)
			b.ExpectReconciled(machine)
			b.Clock.SetTime(machine.DeletionTimestamp.Add(2*time.Hour - time.Second))
			b.ExpectReconciled(machine)
			b.Expect(b.instances()).To(HaveLen(1), "forced before its time")
			b.Clock.Step(time.Second)
			b.ExpectReconciled(machine)
			b.Expect(b.instances()).To(BeEmpty())
			b.remove(machine)
		})
		t.Run("MCM #563: should give an update in place its whole time after "+name, func(t *testing.T) {
			b := newEnv(t)
			machine := b.create("stale-update")
			b.ready(machine)
			b.age(machine, left.status, left.drained, left.updated)
			pod := b.pod(machine.Name, "web")
			b.change(machine, `{"size":2}`)
			started := b.Clock.Now().Truncate(time.Second)
			b.ExpectReconciled(machine)
			b.Expect(b.leaving(pod)).To(BeTrue())
			b.Clock.SetTime(started.Add(2*time.Hour - time.Second))
			b.ExpectReconciled(machine)
			b.Expect(b.driver.Calls()).To(HaveLen(1), "forced before its time")
			b.Expect(machine).To(haveCondition(v1alpha1.MachineDrainedCondition, metav1.ConditionFalse, v1alpha1.ReasonDraining))
			b.Clock.Step(time.Second)
			b.ExpectReconciled(machine)
			b.Expect(b.driver.Calls()).To(HaveLen(2), "the time counts from the update's beginning")
			b.end(pod)
			b.updated(machine)
		})
	}
	t.Run("MCM #563: should wait for a deletion that is in the future by the agent's clock", func(t *testing.T) {
		b := newEnv(t)
		machine := b.create("stale-future")
		b.ready(machine)
		b.pod(machine.Name, "web")
		b.delete(machine)
		b.Clock.SetTime(machine.DeletionTimestamp.Add(-time.Hour))
		b.Expect(b.ExpectReconciled(machine).RequeueAfter).To(Equal(time.Second))
		b.Expect(b.instances()).To(HaveLen(1))
		b.Clock.SetTime(machine.DeletionTimestamp.Add(2 * time.Hour))
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(BeEmpty(), "it ends")
		b.remove(machine)
	})
}

// restart starts an agent again, which is handed what another one knew of when it could act, and lets it thaw.
func (b *env) restart(handed freeze.Uptime) *freeze.Monitor {
	b.T.Helper()
	never := func(context.Context) error { return errors.New("the test says what comes of a probe") }
	monitor, err := freeze.NewMonitor(freeze.Options{
		Probes: map[freeze.Scope]freeze.Probe{freeze.Hub: never, freeze.Target: never},
		Policy: freeze.Policy{After: 24 * time.Hour, Successes: 1},
		Pace:   freeze.Pace{Interval: time.Second, FastInterval: time.Second, Timeout: time.Second}, Runtime: poll.Runtime{Clock: b.Clock}, Metrics: freeze.NewMetrics(prometheus.NewRegistry()),
	})
	b.Expect(err).NotTo(HaveOccurred())
	monitor.Remember(freeze.ParseUptime(handed.String()))
	monitor.Observe(freeze.Hub, nil)
	monitor.Observe(freeze.Target, nil)
	b.downtime = monitor
	b.start()
	return monitor
}

func TestARestartNeitherForcesADrainNorBeginsItAnew(t *testing.T) {
	t.Run("MCM #563: should continue where the agent before left a deletion", func(t *testing.T) {
		b := newEnv(t)
		first := b.restart(nil)
		machine := b.create("restart-deletion")
		b.ready(machine)
		b.pod(machine.Name, "web")
		b.delete(machine)
		b.ExpectReconciled(machine)
		b.Clock.SetTime(machine.DeletionTimestamp.Add(90 * time.Minute))
		b.ExpectReconciled(machine)
		handed := first.Uptime()
		b.Clock.Step(7 * time.Hour)
		second := b.restart(handed)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1), "forced for the time in which no agent ran")
		b.Clock.Step(20 * time.Minute)
		b.restart(second.Uptime())
		b.Clock.Step(9 * time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1))
		b.Clock.Step(time.Minute + time.Second)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(BeEmpty(), "the time of the agents before counts")
		b.remove(machine)
	})
	t.Run("MCM #563: should continue where the agent before left an update in place", func(t *testing.T) {
		b := newEnv(t)
		first := b.restart(nil)
		machine := b.create("restart-update")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		b.change(machine, `{"size":2}`)
		b.ExpectReconciled(machine)
		b.Clock.Step(90 * time.Minute)
		handed := first.Uptime()
		b.Clock.Step(7 * time.Hour)
		b.restart(handed)
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(HaveLen(1), "forced for the time in which no agent ran")
		b.Clock.Step(31 * time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(b.driver.Calls()).To(HaveLen(2), "the time of the agent before counts")
		b.end(pod)
		b.updated(machine)
	})
	t.Run("MCM #563: should give its whole time to what was deleted while no agent ran", func(t *testing.T) {
		b := newEnv(t)
		first := b.restart(nil)
		machine := b.create("restart-down")
		b.ready(machine)
		pod := b.pod(machine.Name, "web")
		handed := first.Uptime()
		b.delete(machine)
		b.Clock.Step(10 * time.Hour)
		b.restart(handed)
		b.ExpectReconciled(machine)
		b.Expect(b.leaving(pod)).To(BeTrue())
		b.Clock.Step(2*time.Hour - time.Minute)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(HaveLen(1), "it could not be drained before")
		b.Clock.Step(time.Minute + time.Second)
		b.ExpectReconciled(machine)
		b.Expect(b.instances()).To(BeEmpty())
		b.remove(machine)
	})
}
