package machineset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/hub/internal/machineset/plan"
)

func TestTidingsAreGathered(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	victim := func(name string) plan.Victim { return plan.Victim{Machine: plan.Machine{Name: name}} }
	var told emittedEvents
	g.Expect(told.dueIn(false, now)).To(BeZero(), "there is nothing to wait for")
	told.addMachines(2, []plan.Victim{victim("a"), victim("b")}, now)
	g.Expect(told.dueIn(false, now)).To(BeZero(), "the first ones are told at once")
	count, victims := told.takeGathered(now)
	g.Expect(count).To(Equal(2))
	g.Expect(victims).To(HaveLen(2))

	told.addMachines(0, nil, now)
	g.Expect(told.dueIn(false, now)).To(BeZero())
	told.addMachines(1, []plan.Victim{victim("c")}, now)
	told.addMachines(1, []plan.Victim{victim("d")}, now)
	g.Expect(told.dueIn(false, now.Add(time.Second))).To(Equal(tellEvery - time.Second))
	g.Expect(told.dueIn(false, now.Add(tellEvery))).To(BeZero())
	told.addMachines(tellAtOnce-2, nil, now)
	g.Expect(told.dueIn(false, now.Add(time.Second))).To(BeZero(), "so many are not put off")
	count, victims = told.takeGathered(now.Add(time.Second))
	g.Expect(count).To(Equal(tellAtOnce))
	g.Expect(victims).To(ConsistOf(victim("c"), victim("d")))
	g.Expect(told.count).To(BeZero())

	later := now.Add(time.Hour)
	told.addMachines(1, nil, later)
	g.Expect(told.dueIn(false, later)).To(BeZero(), "nothing was told for long")
	g.Expect(told.dueIn(true, later)).To(Equal(tellEvery), "and in a rollout more will follow")
	told.addMachines(1, nil, later.Add(time.Second))
	g.Expect(told.dueIn(true, later.Add(tellEvery))).To(BeZero(), "that does not put the first one off any longer")
}

// A set that loses one Machine after the other tells it in few events, and all Machines are named.
func TestASetThatShrinksIsToldInFewEvents(t *testing.T) {
	f := newEnv(t, 6, nil)
	f.ExpectReconciled(f.set)
	f.Expect(f.Events()).To(ConsistOf(ContainSubstring("Created 6 machines")))
	names := active(f.Machines(f.set.Namespace))
	told := []string{}
	for left := int32(5); left >= 0; left-- {
		f.scale(left)
		f.pass(time.Second)
		f.Expect(f.ExpectReconciled(f.set).RequeueAfter).To(BeNumerically("<=", tellEvery))
		told = append(told, f.Events()...)
	}
	f.Expect(told).To(ConsistOf(ContainSubstring("Deleted 1 machine: ")), "the first")
	f.pass(tellEvery)
	f.ExpectReconciled(f.set)
	told = append(told, f.Events()...)
	f.Expect(told).To(ConsistOf(ContainSubstring("Deleted 1 machine: "), ContainSubstring("Deleted 5 machines: ")))
	for _, name := range names {
		f.Expect(told).To(ContainElement(ContainSubstring(name)))
	}
	f.pass(tellEvery)
	f.ExpectReconciled(f.set)
	f.Expect(f.Events()).To(BeEmpty())
}
