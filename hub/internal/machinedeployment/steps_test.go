package machinedeployment

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestGathering(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var all stepBatcher
	g.Expect(all.timeToWait("a", true, now)).To(BeZero(), "a whole step waits for nothing")
	g.Expect(all.timeToWait("a", false, now)).To(Equal(gatherTime))
	g.Expect(all.timeToWait("b", false, now.Add(gatherTime/2))).To(Equal(gatherTime), "each deployment for itself")
	g.Expect(all.timeToWait("a", false, now.Add(gatherTime/2))).To(Equal(gatherTime / 2))
	g.Expect(all.timeToWait("a", false, now.Add(gatherTime))).To(BeZero())
	all.noteStep("a")
	g.Expect(all.timeToWait("a", false, now.Add(gatherTime))).To(Equal(gatherTime), "the next one gathers again")
	g.Expect(all.timeToWait("a", false, now.Add(time.Hour))).To(Equal(gatherTime), "one that was given up does not count")
	g.Expect(all.since).To(HaveLen(1))

	all.noteStep("a")
	all.noteWaiting("a", now)
	all.noteWaiting("a", now.Add(gatherTime/2))
	g.Expect(all.timeToWait("a", false, now.Add(gatherTime*3/4))).To(Equal(gatherTime/4), "it started when the one before was worked on")
	g.Expect(all.timeToWait("a", false, now.Add(gatherTime))).To(BeZero())
	all.noteWaiting("a", now)
	all.noteStep("a")
	g.Expect(all.timeToWait("a", false, now.Add(gatherTime))).To(Equal(gatherTime), "there was nothing to gather")
}
