package machineset

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/outcome"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestRefusedCreationsAreTriedMoreAndMoreRarely(t *testing.T) {
	g := NewWithT(t)
	var b failureBackoff
	now := noon
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		g.Expect(b.verdictAt(5, now).why).To(BeEmpty())
		b.noteRefused(&outcome.Failure{Reason: "CreateFailed", Err: errors.New("quota")}, 0, now)
		held := b.verdictAt(5, now)
		g.Expect(held.after).To(Equal(time.Duration(seconds) * time.Second))
		g.Expect(held.most).To(BeZero())
		g.Expect(b.verdictAt(5, now.Add(held.after-1)).why).NotTo(BeEmpty())
		now = now.Add(held.after)
	}
	b.noteRefused(&outcome.Failure{Reason: "CreateFailed", Err: errors.New("quota")}, 1, now)
	g.Expect(b.verdictAt(5, now).after).To(Equal(firstPause), "one was created: that is progress")
	b.noteAccepted(now)
	g.Expect(b.verdictAt(5, now).why).To(BeEmpty())
}

func TestOnlyWhoseLastMachinesWereTakenBeginsWithMany(t *testing.T) {
	g := NewWithT(t)
	var b failureBackoff
	g.Expect(b.atOnce(noon)).To(Equal(1), "nothing is known")
	b.noteAccepted(noon)
	g.Expect(b.atOnce(noon.Add(acceptance))).To(Equal(parallelCalls))
	g.Expect(b.atOnce(noon.Add(acceptance+1))).To(Equal(1), "that was long ago")
	b.noteAccepted(noon)
	b.noteRefused(&outcome.Failure{Reason: "CreateFailed", Err: errors.New("quota")}, 5, noon)
	g.Expect(b.atOnce(noon)).To(Equal(1))
}

func TestACeilingBoundsWhatASetMakesInATime(t *testing.T) {
	g := NewWithT(t)
	var b failureBackoff
	made := 0
	for range 100 { // Each time one vanishes, another is made.
		if most := min(b.verdictAt(5, noon).most, 1); most > 0 {
			b.countMachines(most, noon)
			made += most
		}
	}
	g.Expect(made).To(Equal(creationsPerReplica*5 + creationsExtra))
	held := b.verdictAt(5, noon)
	g.Expect(held.runaway).To(BeTrue())
	g.Expect(held.why).To(ContainSubstring("20 machines were created within 10m0s for 5 replicas"))
	g.Expect(held.after).To(Equal(creationWindow))
	g.Expect(b.verdictAt(5, noon.Add(creationWindow)).most).To(BeNumerically(">", 0))

	b = failureBackoff{}
	for range 20 { // Scaling to nothing and back, over and over, is no runaway.
		g.Expect(b.verdictAt(200, noon).most).To(BeNumerically(">=", 200))
		b.countMachines(200, noon)
		b.countMachines(-200, noon)
	}
	b.countMachines(-1000, noon)
	g.Expect(b.verdictAt(0, noon).most).To(Equal(creationsExtra), "deletions are no credit")
	g.Expect(b.verdictAt(10_000, noon).most).To(Equal(creationsAtOnce))
}

func TestSetsAreForgottenInTheEnd(t *testing.T) {
	g := NewWithT(t)
	var m memory
	first := m.memoryOf("a", noon)
	first.marks.noteMark("x", "now", noon)
	g.Expect(m.memoryOf("a", noon.Add(memoryTTL))).To(BeIdenticalTo(first))
	m.memoryOf("b", noon.Add(3*memoryTTL))
	g.Expect(m.sets).To(HaveLen(1))
}
