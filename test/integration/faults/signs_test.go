package faults

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// signs are how one sees that hub or agent has frozen because of a fault: what an agent says of itself, and what the hub
// says of the cluster. Empty is nothing.
type signs struct{ agent, hub string }

// either is the reason of a freeze that has two causes: which of them is told does not matter.
const either = "either"

// signsOf faults that come together: one, or a pair.
func signsOf(faults []fleettest.Fault) signs {
	if len(faults) == 1 {
		return signsAlone(faults[0])
	}
	var all signs
	for _, fault := range faults {
		alone := signsAlone(fault)
		if alone.agent != "" {
			all.agent = either
		}
		if alone.hub != "" {
			all.hub = either
		}
	}
	// An agent that is stopped cannot be asked, and a hub that is broken has nothing to say.
	if slices.Contains(faults, fleettest.Fault{Way: fleettest.Stop, Part: fleettest.Agent}) {
		all.agent = ""
	}
	if slices.ContainsFunc(faults, func(f fleettest.Fault) bool { return f.Part.Shared() && stays(f) }) {
		all.hub = ""
	}
	return all
}

// stays tells of a fault that takes something away for as long as it lasts. What is killed comes back at once, and a
// slow network carries everything.
func stays(fault fleettest.Fault) bool {
	return fault.Way != fleettest.Kill && fault.Way != fleettest.Slow
}

// signsAlone are those of a fault that comes alone. Without the hub process nothing is ordered: then no agent has to
// freeze.
func signsAlone(fault fleettest.Fault) signs {
	if !stays(fault) {
		return signs{}
	}
	switch fault.Part {
	case fleettest.HubServer, fleettest.HubEtcd:
		return signs{agent: v1alpha1.ReasonHubUnreachable}
	case fleettest.Agent:
		if fault.Way == fleettest.Stop {
			return signs{hub: v1alpha1.ReasonAgentSilent}
		}
		return signs{agent: v1alpha1.ReasonHubUnreachable, hub: v1alpha1.ReasonAgentSilent}
	case fleettest.TargetServer, fleettest.TargetEtcd:
		return signs{agent: v1alpha1.ReasonTargetUnreachable, hub: v1alpha1.ReasonTargetUnreachable}
	case fleettest.HostLink:
		return signs{agent: v1alpha1.ReasonHostUnreachable, hub: v1alpha1.ReasonHostUnreachable}
	default:
		return signs{}
	}
}

// lasts is how long faults last that show no sign.
func lasts(faults []fleettest.Fault) time.Duration {
	if slices.ContainsFunc(faults, func(f fleettest.Fault) bool { return f.Way != fleettest.Kill }) {
		return outage
	}
	return brief
}

// feel waits until all that have to freeze have frozen, and then asks that the frozen do nothing for a while. Pairs
// last for a while in any case: what one of them does not freeze, it may have killed.
func feel(ctx context.Context, next round) {
	GinkgoHelper()
	silent := !slices.ContainsFunc(next, func(faults []fleettest.Fault) bool { return signsOf(faults) != signs{} })
	if silent || len(next[0]) > 1 {
		pass(ctx, lasts(slices.Concat(next...)))
	}
	if silent {
		return
	}
	for i, h := range herds {
		h.expectSigns(ctx, signsOf(next[i]))
	}
	for i, h := range herds {
		h.catchUp(ctx, next[i])
	}
	before := frozenState(next)
	Consistently(ctx, func() [][]string { return frozenState(next) }).WithTimeout(quiet).WithPolling(fleettest.Glance).
		Should(Equal(before), "frozen means frozen")
}

// expectSigns waits until agent and hub say that they have frozen. Killed ones are started again meanwhile.
func (h *herd) expectSigns(ctx context.Context, want signs) {
	GinkgoHelper()
	because := func(reason string) types.GomegaMatcher {
		if reason == either {
			return Not(BeEmpty())
		}
		return Equal(reason)
	}
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.Supervise(ctx)).To(Succeed())
		if want.agent != "" {
			says := fleettest.AskAgent(ctx, g, h.member)
			g.Expect(says.Frozen).To(BeTrue(), "%+v", says)
			g.Expect(says.Reason).To(because(want.agent))
		}
		if want.hub != "" {
			condition := conditionOf(ctx, g, h.member, v1alpha1.FrozenCondition)
			g.Expect(condition.Status).To(Equal(metav1.ConditionTrue), "%+v", condition)
			g.Expect(condition.Reason).To(because(want.hub))
		}
	}).Should(Succeed(), "%s is frozen: %+v", h.member.Name, want)
}

// catchUp waits until the journals of what must not change tell all that was before, where an API server was away for a
// moment or is slow. One that is away still tells nothing.
func (h *herd) catchUp(ctx context.Context, faults []fleettest.Fault) {
	GinkgoHelper()
	want := signsOf(faults)
	away := slices.ContainsFunc(faults, func(f fleettest.Fault) bool {
		return f.Part == fleettest.TargetServer && f.Way == fleettest.Stop || f.Part == fleettest.TargetEtcd && stays(f)
	})
	if want.agent != "" && !away {
		for _, journal := range []*fleettest.Journal{h.seen.Pods, h.seen.Nodes, h.web.Journal} {
			journal.CatchUp(ctx)
		}
	}
	if want.hub != "" {
		h.seen.Machines.CatchUp(ctx)
	}
}

// frozenState is what must not change in clusters whose agent, or whose side on the hub, has frozen: the agent makes
// and removes no pods, removes no Nodes and evicts nothing, the hub makes and removes no Machines. What was under way on
// a crawling network arrives late, after the freeze of its sender.
func frozenState(next round) [][]string {
	var all [][]string
	for i, h := range herds {
		want := signsOf(next[i])
		crawls := slices.ContainsFunc(next[i], func(f fleettest.Fault) bool { return f.Way == fleettest.Crawl })
		if want.agent != "" && !crawls {
			all = append(all, h.seen.Pods.Made(), h.seen.Pods.Ending(), h.seen.Nodes.Ending(), h.web.Ending())
		}
		if want.hub != "" {
			all = append(all, h.seen.Machines.Made(), h.seen.Machines.Ending())
		}
	}
	return all
}

// pass lets time pass, in which a supervisor starts again what has ended.
func pass(ctx context.Context, duration time.Duration) {
	GinkgoHelper()
	timer, ticker := time.NewTimer(duration), time.NewTicker(time.Second)
	defer timer.Stop()
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			Fail("the spec's time is over")
		case <-timer.C:
			return
		case <-ticker.C:
			Expect(fleet.Supervise(ctx)).To(Succeed())
		}
	}
}
