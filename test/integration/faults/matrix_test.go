package faults

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	// outage is longer than it takes to freeze, and than a hub keeps its lease without renewing it.
	outage = 2 * freezeAfter
	// brief is longer than it takes to start again.
	brief = 2 * time.Second
	// quiet is how long the frozen are looked at.
	quiet = 2 * time.Second
	// Flaps are shorter than --freeze-after, together they are longer.
	flap, flaps = 1500 * time.Millisecond, 5
)

// herds are one in each cluster; at any time each is in another activity.
var herds []*herd

// met is which faults have come before which activities were done.
var met = encounters{}

// turn counts the rounds: with each of them a herd continues to its next activity.
var turn int

// Claim: Whatever breaks, nothing is lost, doubled or over budget. Broken: not broken as a whole.
var _ = Describe("A fleet in the middle of every activity", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		AddReportEntry("seed", *seed)
		for _, member := range fleet.Members {
			herds = append(herds, newHerd(ctx, member))
		}
		for _, h := range herds {
			fleet.ExpectReady(ctx, h.member, herdPool, few)
			h.web = fleet.NewWorkload(ctx, h.member, herdPool, webs, leastWebs)
		}
	}, NodeTimeout(2*fleettest.Patience))

	for _, next := range drawn(extentOfRun(), *seed) {
		It(fmt.Sprintf("should stand it: %s", next), func(ctx SpecContext) {
			begin(ctx)
			mend := breakAll(ctx, once, next)
			feel(ctx, next)
			mend(ctx)
			expectWellDone(ctx)
		}, SpecTimeout(8*fleettest.Patience))
	}

	for _, next := range flapping(extentOfRun(), *seed) {
		It("should stand it when this flaps: "+next.String(), func(ctx SpecContext) {
			begin(ctx)
			for range flaps {
				mend := breakAll(ctx, again, next)
				pass(ctx, flap)
				mend(ctx)
				pass(ctx, flap)
			}
			expectWellDone(ctx)
		}, SpecTimeout(8*fleettest.Patience))
	}

	It("should have been caught in the middle of every activity, and by every fault", func() {
		AddReportEntry("how often a fault has come before an activity was done", met.String())
		anything := func(fleettest.Fault) bool { return true }
		Expect(met.byActivity(anything)).To(HaveEach(BeNumerically(">", 0)), "no activity was always over")
		for _, next := range drawn(extentOfRun(), *seed) {
			Expect(met.inRound(once, next)).To(BeNumerically(">", 0), "%s came too late", next)
		}
		for _, next := range flapping(extentOfRun(), *seed) {
			Expect(met.inRound(again, next)).To(BeNumerically(">", 0), "%s came too late when it flapped", next)
		}
		if *wholeFlag { // Else each kind comes alone once, and what is over soonest may be over when its turn comes.
			Expect(met.missing()).To(BeEmpty(), "every kind of fault has met every activity")
		}
	})
})

// activityOf a cluster in the middle of which a round comes. Where there are fewer clusters than activities, a round has the
// activities after those of the round before it, so that two rounds have all.
func activityOf(cluster, turn int) activity {
	if clusters < len(activities) {
		turn *= clusters
	}
	return activities[(cluster+turn)%len(activities)]
}

// start lets every herd start with its next activity, and returns when they all are in the middle of it. A hub that a
// busy machine has kept from renewing its lease is started again.
func begin(ctx context.Context) {
	GinkgoHelper()
	Expect(fleet.Supervise(ctx)).To(Succeed())
	for i, h := range herds {
		h.prepare(ctx, activityOf(i, turn))
	}
	turn++
	// What is over soonest starts last.
	inOrder := slices.SortedFunc(slices.Values(herds), func(a, b *herd) int { return cmp.Compare(b.doing.slowness, a.doing.slowness) })
	for _, h := range inOrder {
		h.doing.begin(ctx, h)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.Supervise(ctx)).To(Succeed())
			g.Expect(h.begun()).To(BeTrue())
		}).WithPolling(time.Millisecond).Should(Succeed(), "%s has started", h)
	}
}

// breakAll breaks what the round says, a shared part once.
func breakAll(ctx context.Context, how manner, round round) (mend func(context.Context)) {
	GinkgoHelper()
	var mends []fleettest.Mend
	mend = func(ctx context.Context) {
		GinkgoHelper()
		last := mends
		mends = nil
		for _, one := range slices.Backward(last) {
			Expect(one(ctx)).To(Succeed())
		}
	}
	DeferCleanup(mend)
	broken := map[fleettest.Fault]bool{}
	for i, faults := range round {
		h := herds[i]
		By(fmt.Sprintf("breaking, %s; done: %t", h, h.done()))
		if !h.done() {
			met.note(encounter{how, round.String(), h.doing.name}, faults)
		}
		for _, fault := range faults {
			if broken[fault] && fault.Part.Shared() {
				continue
			}
			broken[fault] = true
			// What was killed a moment ago may be about to start still.
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				mended, err := fleet.Break(ctx, fault, h.member)
				g.Expect(err).NotTo(HaveOccurred())
				mends = append(mends, mended)
			}).Should(Succeed(), "%s", fault)
		}
	}
	return mend
}

// expectWellDone waits until every herd has come to what was asked for, without help but that of a supervisor, and
// judges how.
func expectWellDone(ctx context.Context) {
	GinkgoHelper()
	for _, h := range herds {
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.Supervise(ctx)).To(Succeed())
			h.settled(ctx, g)
		}).WithTimeout(2*fleettest.Patience).Should(Succeed(), "%s comes to rest as asked", h)
	}
	for _, h := range herds {
		h.verdict(ctx)
	}
}

var _ = Describe("Two blips", func() {
	// Claim: Two distant blips are no outage. Broken: not broken alone.
	DescribeTable("should not add up to an outage, far apart",
		func(ctx SpecContext, way fleettest.Way, part fleettest.Part) {
			expectHealthy(ctx)
			for range 2 {
				var mends []fleettest.Mend
				for _, member := range fleet.Members {
					mend, err := fleet.Break(ctx, fleettest.Fault{Way: way, Part: part}, member)
					Expect(err).NotTo(HaveOccurred())
					mends = append(mends, mend)
				}
				allThawedFor(ctx, blip)
				for _, mend := range mends {
					Expect(mend(ctx)).To(Succeed())
				}
				allThawedFor(ctx, freezeAfter)
			}
		},
		Entry("of the way to the hub", fleettest.Long, fleettest.Refuse, fleettest.Agent, SpecTimeout(3*fleettest.Patience)),
		Entry("of the way to the target", fleettest.Long, fleettest.BlackHole, fleettest.TargetServer, SpecTimeout(3*fleettest.Patience)),
	)
})

// allThawedFor asks for a while that no agent says it is frozen.
func allThawedFor(ctx context.Context, duration time.Duration) {
	GinkgoHelper()
	Consistently(ctx, func(g Gomega, ctx context.Context) {
		for _, member := range fleet.Members {
			g.Expect(fleettest.AskAgent(ctx, g, member)).To(Equal(fleettest.Frozenz{Reason: v1alpha1.ReasonNotFrozen}), member.Name)
		}
	}).WithTimeout(duration).WithPolling(fleettest.Glance).Should(Succeed())
}
