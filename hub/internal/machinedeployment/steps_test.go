package machinedeployment

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestGathering(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all stepBatcher
	g.Expect(all.wait("a", true, now)).To(BeZero(), "a whole step waits for nothing")
	g.Expect(all.wait("a", false, now)).To(Equal(gatherTime))
	g.Expect(all.wait("b", false, now.Add(gatherTime/2))).To(Equal(gatherTime), "each deployment for itself")
	g.Expect(all.wait("a", false, now.Add(gatherTime/2))).To(Equal(gatherTime / 2))
	g.Expect(all.wait("a", false, now.Add(gatherTime))).To(BeZero())
	all.end("a")
	g.Expect(all.wait("a", false, now.Add(gatherTime))).To(Equal(gatherTime), "the next one gathers anew")
	g.Expect(all.wait("a", false, now.Add(time.Hour))).To(Equal(gatherTime), "one that was given up does not count")
	g.Expect(all.since).To(HaveLen(1))

	all.end("a")
	all.begin("a", now)
	all.begin("a", now.Add(gatherTime/2))
	g.Expect(all.wait("a", false, now.Add(gatherTime*3/4))).To(Equal(gatherTime/4), "it began when the one before was worked on")
	g.Expect(all.wait("a", false, now.Add(gatherTime))).To(BeZero())
	all.begin("a", now)
	all.end("a")
	g.Expect(all.wait("a", false, now.Add(gatherTime))).To(Equal(gatherTime), "there was nothing to gather")
}

func TestRefusals(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all refusals
	wait := func(after time.Duration) time.Duration {
		left, err := all.wait("a", now.Add(after))
		g.Expect(err != nil).To(Equal(left > 0))
		return left
	}
	g.Expect(wait(0)).To(BeZero())
	all.add("a", errors.New("no"), now)
	g.Expect(wait(time.Second)).To(Equal(firstRetry - time.Second))
	g.Expect(wait(firstRetry)).To(BeZero())
	all.add("a", errors.New("no"), now.Add(firstRetry))
	g.Expect(wait(firstRetry)).To(Equal(2 * firstRetry))
	for range 10 {
		all.add("a", errors.New("no"), now)
	}
	g.Expect(wait(0)).To(Equal(lastRetry))
	all.add("a", nil, now)
	g.Expect(wait(0)).To(BeZero())
	all.add("b", errors.New("no"), now)
	g.Expect(wait(time.Hour)).To(BeZero())
	g.Expect(all.all).To(BeEmpty())
}
