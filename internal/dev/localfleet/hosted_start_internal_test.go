package localfleet

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/internal/localclusters"
)

// Claim: A cluster starts only when one that starts is ready, however many are asked for. Broken: its place was free when its control plane ran.
func TestOnlySoManyClustersStartAtATime(t *testing.T) {
	g := NewWithT(t)
	f := &Fleet{}
	starting := make([]*hosted, startsAtATime())
	for i := range starting {
		starting[i] = f.addHosted("s")
		g.Expect(starting[i].beginStart(t.Context())).To(Succeed())
		g.Expect(starting[i].beginStart(t.Context())).To(Succeed(), "it has its place already")
	}
	waiting, ctx := f.addHosted("w"), t.Context()
	taken := make(chan error, 1)
	takePlace := func(ctx context.Context) { go func() { taken <- waiting.beginStart(ctx) }() }
	said := func() string {
		answer := localclusters.Cluster{Phase: localclusters.Starting}
		waiting.observe(ctx, &answer)
		return answer.Message
	}

	takePlace(ctx)
	g.Eventually(said).Should(HavePrefix("it waits until one of the "))
	waiting.noteChange(false)
	g.Eventually(taken).Should(Receive(MatchError(errChanged)), "it may have to be removed")

	ended, end := context.WithCancel(ctx)
	takePlace(ended)
	end()
	g.Eventually(taken).Should(Receive(MatchError(context.Canceled)))

	takePlace(ctx)
	g.Eventually(said).ShouldNot(BeEmpty())
	g.Consistently(taken, 100*time.Millisecond).ShouldNot(Receive())
	starting[0].endStart()
	starting[0].endStart()
	g.Eventually(taken).Should(Receive(BeNil()))
	g.Expect(said()).To(BeEmpty())
	g.Expect(f.hosting.starting).To(HaveLen(startsAtATime()))
}

// Claim: A start without progress does not keep other clusters waiting, and one with some keeps its place. Broken: patience counted from its beginning.
func TestAStartThatStallsEnds(t *testing.T) {
	g, now := NewWithT(t), time.Now()
	one := &start{progressed: now}
	g.Expect(one.noteProgress(0, now.Add(startPatience))).To(BeFalse())
	g.Expect(one.noteProgress(1, now.Add(startPatience))).To(BeFalse())
	g.Expect(one.noteProgress(1, now.Add(2*startPatience))).To(BeFalse())
	g.Expect(one.noteProgress(0, now.Add(2*startPatience+1))).To(BeTrue())
	g.Expect(one.noteProgress(2, now.Add(2*startPatience+1))).To(BeFalse())
}
